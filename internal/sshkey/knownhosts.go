package sshkey

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
)

// The markers of lines in known_hosts files.
const (
	MarkerAuthority = "@cert-authority"
	MarkerRevoked   = "@revoked"
)

// A KnownHost is a line of a known_hosts file.
type KnownHost struct {
	// Number counts from 1.
	Number int
	// Marker is one of the markers, or "".
	Marker string
	// Names are the patterns of the hosts.
	Names []string
	// Key is the key in SSH's wire format. Its kind may be any.
	Key []byte
}

// KnownHosts reads a known_hosts file. Unread are the numbers of lines that are neither empty, nor comments, nor whole: they take
// nothing from the others.
func KnownHosts(text []byte) (lines []KnownHost, unread []int) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // a byte order mark, as editors of Windows write it
	number := 0
	for line := range bytes.Lines(text) {
		number++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		l := KnownHost{Number: number}
		if strings.HasPrefix(fields[0], "@") {
			l.Marker, fields = fields[0], fields[1:]
		}
		if len(fields) < 3 || l.Marker != "" && l.Marker != MarkerAuthority && l.Marker != MarkerRevoked || CheckPublic(fields[1]+" "+fields[2]) != nil {
			unread = append(unread, number)
			continue
		}
		l.Names = strings.Split(fields[0], ",")
		l.Key, _ = base64.StdEncoding.DecodeString(fields[2]) // it was checked
		lines = append(lines, l)
	}
	return lines, unread
}

// KnownHostsFiles returns the files that ssh(1) reads with the user's own: known_hosts2 and those of the machine, which are there.
// Any other file stands alone.
func KnownHostsFiles(file string) []string {
	files := []string{file}
	home, err := os.UserHomeDir()
	if err != nil || filepath.Clean(file) != filepath.Join(home, ".ssh", "known_hosts") {
		return files
	}
	system := "/etc/ssh"
	if data := os.Getenv("ProgramData"); data != "" && os.PathSeparator == '\\' {
		system = filepath.Join(data, "ssh")
	}
	for _, other := range []string{file + "2", filepath.Join(system, "ssh_known_hosts"), filepath.Join(system, "ssh_known_hosts2")} {
		if f, err := os.Open(other); err == nil {
			f.Close()
			files = append(files, other)
		}
	}
	if _, err := os.Stat(file); err != nil && len(files) > 1 {
		files = files[1:]
	}
	return files
}
