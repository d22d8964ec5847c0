package local

import (
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	got := environment([]string{
		"PATH=/bin", "HOME=/home/me", "LC_ALL=C", "LANG=", "AWS_SECRET_ACCESS_KEY=x", "HF_TOKEN=x", "SSH_AUTH_SOCK=/s",
		"http_proxy=http://proxy:3128", "https_proxy=http://me:hunter2@proxy:3128", "HTTPS_PROXY=me:hunter2@proxy:3128",
		"NCCL_DEBUG=INFO", "HF_HOME=/models", "ALL_PROXY=http://me:asked@proxy",
	}, []string{"NCCL_*", "HF_HOME", "ALL_PROXY"})
	want := []string{"PATH=/bin", "LC_ALL=C", "LANG=", "http_proxy=http://proxy:3128",
		"NCCL_DEBUG=INFO", "HF_HOME=/models", "ALL_PROXY=http://me:asked@proxy"}
	if !slices.Equal(got, want) {
		t.Errorf("nodes see %q\nwant %q", got, want)
	}
}

func TestEnvOfProcArgs(t *testing.T) {
	answer := "\x02\x00\x00\x00/bin/sleep\x00\x00\x00\x00sleep\x001000\x00A=1\x00GPUTRAIN_NODE=p-0\x00"
	if got := variable(envOfProcArgs([]byte(answer)), nodeEnv); got != "p-0" {
		t.Errorf("node %q", got)
	}
}

func FuzzEnvOfProcArgs(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00/bin/sleep\x00\x00sleep\x001000\x00A=1\x00"))
	f.Add([]byte("\xff\xff\xff\xffx\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, answer []byte) {
		if env := envOfProcArgs(answer); len(env) > len(answer) {
			t.Error("more came out than went in")
		}
	})
}
