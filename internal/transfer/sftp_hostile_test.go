package transfer

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
)

// A liar is an SFTP server whose listings do not match its files.
type liar struct {
	lists   map[string][]liarFile // by the folder's path
	endless bool                  // lists files without end
	opened  liarFile              // what Stat reports for any file
	content string
}

// A liarFile is a file as the server describes it.
type liarFile struct {
	name string
	mode fs.FileMode
	size int64
	link string
}

func (f liarFile) Name() string       { return f.name }
func (f liarFile) Size() int64        { return f.size }
func (f liarFile) Mode() fs.FileMode  { return f.mode }
func (f liarFile) ModTime() time.Time { return time.Unix(0, 0) }
func (f liarFile) IsDir() bool        { return f.mode.IsDir() }
func (f liarFile) Sys() any           { return nil }

func (s *liar) Fileread(*sftp.Request) (io.ReaderAt, error) {
	return strings.NewReader(s.content), nil
}

func (s *liar) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	switch r.Method {
	case "Stat": // also for an open file
		return &listing{files: []liarFile{s.opened}}, nil
	case "Readlink":
		for _, files := range s.lists {
			for _, f := range files {
				if f.name == filepath.Base(r.Filepath) {
					return &listing{files: []liarFile{{name: f.link}}}, nil
				}
			}
		}
	}
	return &listing{s.lists[r.Filepath], s.endless}, nil
}

type listing struct {
	files   []liarFile
	endless bool
}

func (l *listing) ListAt(to []os.FileInfo, from int64) (int, error) {
	for i := range to {
		at := int(from) + i
		if l.endless {
			to[i] = liarFile{name: fmt.Sprint(at), mode: 0o644}
			continue
		}
		if at >= len(l.files) {
			return i, io.EOF
		}
		to[i] = l.files[at]
	}
	return len(to), nil
}

// serve starts the server, and connects a client to it in memory.
func (s *liar) serve(t testing.TB) *server {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	there := sftp.NewRequestServer(struct {
		io.Reader
		io.WriteCloser
	}{fromClient, toClient}, sftp.Handlers{FileGet: s, FileList: s})
	done := make(chan struct{})
	go func() {
		defer close(done)
		there.Serve()
		toClient.Close()
	}()
	c := &server{most: listedBytes}
	var err error
	c.Client, err = sftp.NewClientPipe(&counting{fromServer, c}, toServer)
	must(t, err)
	t.Cleanup(func() {
		fromServer.Close()
		c.Close()
		fromClient.Close()
		<-done
	})
	return c
}

type counting struct {
	io.Reader
	to *server
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err := c.to.received(n); err != nil {
		return 0, err
	}
	return n, err
}

func TestSFTPRefuses(t *testing.T) {
	file := func(name string) liarFile { return liarFile{name: name, mode: 0o644, size: 4} }
	deep := map[string][]liarFile{}
	for at := "/x"; len(at) < 2*nameDepth+10; at += "/d" {
		deep[at] = []liarFile{{name: "d", mode: fs.ModeDir | 0o755}}
	}
	for _, tt := range []struct {
		name, want string
		s          liar
	}{
		{"twice", `"a" twice`, liar{lists: map[string][]liarFile{"/x": {file("a"), file("a")}}}},
		{"twice, with slashes", `"a" twice`, liar{lists: map[string][]liarFile{"/x": {file("../../home/a"), file("a")}}}},
		{"a link, then a file", `"a" twice`, liar{lists: map[string][]liarFile{"/x": {{name: "a", mode: fs.ModeSymlink, link: "mine"}, file("a")}}}},
		{"a folder over a link of before", `"outward" is a link`, liar{lists: map[string][]liarFile{"/x": {{name: "outward", mode: fs.ModeDir}}}}},
		{"a slash", `"/"`, liar{lists: map[string][]liarFile{"/x": {file("/")}}}},
		{"escape sequence", `"\x1b[2J"`, liar{lists: map[string][]liarFile{"/x": {file("\x1b[2J")}}}},
		{"control character in a link's target", `\a`, liar{lists: map[string][]liarFile{"/x": {{name: "l", mode: fs.ModeSymlink, link: "\a"}}}}},
		{"very deep", "deep", liar{lists: deep}},
		{"a pipe behind a file", "something else", liar{lists: map[string][]liarFile{"/x": {file("a")}}, opened: liarFile{name: "a", mode: fs.ModeNamedPipe, size: 4}}},
		{"a folder behind a file", "something else", liar{lists: map[string][]liarFile{"/x": {file("a")}}, opened: liarFile{name: "a", mode: fs.ModeDir, size: 4}}},
		{"shorter when it is opened", "had 4 bytes, and has 3", liar{lists: map[string][]liarFile{"/x": {file("a")}}, opened: liarFile{name: "a", size: 3}}},
		{"shorter than it says", "ended before its 4 bytes", liar{lists: map[string][]liarFile{"/x": {file("a")}}, opened: file("a"), content: "abc"}},
		{"a negative size", "size of -", liar{lists: map[string][]liarFile{"/x": {{name: "a", size: math.MinInt64}}}}},
		{"a huge size", "more than 1000000 bytes", liar{lists: map[string][]liarFile{"/x": {{name: "a", size: math.MaxInt64}}}}},
		{"too many", "more than 10000 files", liar{lists: map[string][]liarFile{"/x": {file("a")}}, endless: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outer := hostileFolder(t)
			l, err := openLanding(filepath.Join(outer, "to/in"), Limits{Bytes: 1e6, Files: 1e4}, nil)
			must(t, err)
			defer l.close()
			l.begin()
			if tt.s.opened.name == "" {
				tt.s.opened, tt.s.content = file("a"), "evil"
			}
			c := tt.s.serve(t)
			if tt.s.endless { // the default limit of 256 MiB takes long
				c.most = 1 << 20
				tt.want = errListing.Error()
			}
			err = l.getTree(t.Context(), c, "/x", "", RefuseOutside)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			checkHome(t, outer)
		})
	}
}

// TestSFTPReadsNoMoreThanItsSize gets a file that is longer than the server reported.
func TestSFTPReadsNoMoreThanItsSize(t *testing.T) {
	s := &liar{lists: map[string][]liarFile{"/x": {{name: "a", mode: 0o644, size: 4}}}, opened: liarFile{name: "a", mode: 0o644, size: 4}, content: strings.Repeat("evil", 1<<20)}
	dir := t.TempDir()
	l, err := openLanding(dir, Limits{Bytes: 4}, nil)
	must(t, err)
	defer l.close()
	must(t, l.getTree(t.Context(), s.serve(t), "/x", "", RefuseOutside))
	if text, err := os.ReadFile(filepath.Join(dir, "a")); !bytes.Equal(text, []byte("evil")) {
		t.Errorf("%d bytes arrived, %v", len(text), err)
	}
}

// TestSFTPLinks downloads links over SFTP, two of which lead out of the folder.
func TestSFTPLinks(t *testing.T) {
	s := &liar{lists: map[string][]liarFile{"/x": {
		{name: "in", mode: fs.ModeSymlink, link: "mine"}, {name: "out", mode: fs.ModeSymlink, link: "../../home/.ssh"}, {name: "absolute", mode: fs.ModeSymlink, link: "/etc"},
	}}}
	outer := hostileFolder(t)
	l, err := openLanding(filepath.Join(outer, "to/in"), Limits{}, nil)
	must(t, err)
	defer l.close()
	must(t, l.getTree(t.Context(), s.serve(t), "/x", "", RefuseOutside))
	if l.leftOut.count != 2 || !exists(filepath.Join(outer, "to/in/in")) {
		t.Errorf("left out %v", l.leftOut.links)
	}
	checkHome(t, outer)
}
