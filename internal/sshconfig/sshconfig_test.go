package sshconfig

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// What ssh -G prints is read line by line; ssh's own files are no setting of the user's.
func TestParse(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	t.Setenv("USERPROFILE", "/home/me")
	t.Setenv("LAB", "labs")
	q := Question{Host: "gpu"}
	own := "hostname gpu.lab\nuser me\nport 22\nidentityfile ~/.ssh/id_rsa\nidentityfile ~/.ssh/id_ed25519\nuserknownhostsfile /x/.ssh/known_hosts /x/.ssh/known_hosts2\nproxyjump none\n"
	if got, want := parse(own, q), (Answer{HostName: "gpu.lab", User: "me", Port: "22"}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	got := parse("hostname h\nuser u\nport 7\nidentityfile ~/k\nidentityfile /k/%h-%n-%r-%p-%%\nidentityfile /${LAB}/k\nidentityfile /%x\nidentityfile /${NOT_SET_ANYWHERE}/k\nidentitiesonly yes\nidentityagent none\n"+
		"userknownhostsfile /a /b\nproxyjump a,b@c:1\nhostkeyalias H\ncertificatefile /c\nodd\n\n", q)
	want := Answer{
		HostName: "h", User: "u", Port: "7", IdentityFiles: []string{filepath.Join("/home/me", "k"), "/k/h-gpu-u-7-%", "/labs/k"}, IdentitiesOnly: true, NoAgent: true,
		KnownHosts: []string{"/a", "/b"}, Jump: []string{"a", "b@c:1"}, Unused: []string{"certificatefile /c", "IdentityFile /%x", "IdentityFile /${NOT_SET_ANYWHERE}/k"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	for jump, want := range map[string]Question{
		"a": {Host: "a"}, "u@a:7": {Host: "a", User: "u", Port: "7"}, "[::1]:7": {Host: "::1", Port: "7"}, "ssh://u@a:7/": {Host: "a", User: "u", Port: "7"}, "u@x@a": {Host: "a", User: "u@x"},
		"::1": {Host: "::1"}, "a:port": {Host: "a:port"},
	} {
		if got := SplitJump(jump); got != want {
			t.Errorf("%s: %+v", jump, got)
		}
	}
}

// An ssh that prints without end, or complains at length, is cut off.
func TestAnswerWithoutEnd(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the ssh of this test is a shell script")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for script, says := range map[string]string{
		"yes hostname x": "the answer is too long",
		"yes complaint | head -c 1000000 >&2; exit 3": "exit status 3: complaint",
	} {
		if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := Ask(t.Context(), "f", Question{Host: "h"})
		if err == nil || !strings.Contains(err.Error(), says) || len(err.Error()) > 200 {
			t.Errorf("%s: %v", script, err)
		}
	}
	for _, host := range []string{"", "-oProxyCommand=x"} {
		if _, err := Ask(t.Context(), "f", Question{Host: host}); err == nil || errors.Is(err, ErrNoSSH) {
			t.Errorf("%q: %v", host, err)
		}
	}
}
