package transfer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tarFile and the next functions return entries of archives. The content of each file is "evil".
func tarFile(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o6777, Size: 4}
}

func tarDir(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o7755}
}

func tarLink(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}

func tarHard(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}

func tarKind(kind byte, name string) *tar.Header { return &tar.Header{Typeflag: kind, Name: name} }

func packed(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		must(t, w.WriteHeader(h))
		io.WriteString(w, "evil"[:min(h.Size, 4)])
	}
	must(t, w.Close())
	return b.Bytes()
}

// sparse returns an archive with a file of 1 GiB of holes, in GNU's form or as a PAX record.
func sparse(t testing.TB, pax bool) []byte {
	if pax {
		b := packed(t, &tar.Header{Typeflag: tar.TypeReg, Name: "holes", Mode: 0o644, Size: 4, Format: tar.FormatPAX, PAXRecords: map[string]string{"NOT.sparse.size": "1073741824"}})
		// archive/tar refuses to write records in the GNU.sparse namespace.
		return bytes.Replace(b, []byte("NOT.sparse.size"), []byte("GNU.sparse.size"), 1)
	}
	b := packed(t, &tar.Header{Typeflag: tar.TypeReg, Name: "holes", Mode: 0o644, Format: tar.FormatGNU})
	b[156] = tar.TypeGNUSparse
	copy(b[483:], "00010000000\x00") // the size with holes
	copy(b[148:], fmt.Sprintf("%06o\x00 ", checksum(b[:512])))
	return b
}

func checksum(header []byte) (sum int) {
	for i, c := range header {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int(c)
	}
	return sum
}

// hostileFolder returns a folder that has a home and to/in, the destination of downloads. The destination has
// files, and links that lead out of it.
func hostileFolder(t testing.TB) (outer string) {
	t.Helper()
	outer = t.TempDir()
	tree{
		"home/.ssh/config": "untouched", "to/in/mine": "kept", "to/in/deep/f": "kept",
		"to/in/outward": "-> ../../home", "to/in/deep/inward": "-> ../deep", "to/in/up": "-> ../../home/.ssh/config",
	}.make(t, outer)
	return outer
}

// checkHome checks that nothing outside of to/in changed, and that no new link leads out.
func checkHome(t testing.TB, outer string) {
	t.Helper()
	tree{".ssh/config": "untouched"}.compare(t, filepath.Join(outer, "home"))
	if names, err := os.ReadDir(outer); err != nil || len(names) != 2 {
		t.Errorf("beside the destination there is %v, %v", names, err)
	}
	if names, err := os.ReadDir(filepath.Join(outer, "to")); err != nil || len(names) != 1 {
		t.Errorf("beside the folder there is %v, %v", names, err)
	}
	if info, err := os.Stat(filepath.Join(outer, "home/.ssh/config")); err != nil || info.Mode() != 0o644 {
		t.Errorf("the mode of a file outside is %v, %v", info.Mode(), err)
	}
	root, err := os.OpenRoot(filepath.Join(outer, "to/in"))
	must(t, err)
	defer root.Close()
	must(t, fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		info, infoErr := d.Info()
		if err != nil || infoErr != nil {
			return errors.Join(err, infoErr)
		}
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky|fs.ModeDevice|fs.ModeNamedPipe) != 0 {
			t.Errorf("%s arrived with mode %v", name, info.Mode())
		}
		if d.Type() == fs.ModeSymlink && name != "outward" && name != "up" && leadsOut(root, name) {
			target, _ := root.Readlink(name)
			t.Errorf("%s leads out, to %q", name, target)
		}
		return nil
	}))
}

// TestUnpackTreeRefuses unpacks archives that no honest node sends. It does so twice, because the files from before
// the refusal must not make the second try dangerous.
func TestUnpackTreeRefuses(t *testing.T) {
	many := strings.Repeat("d/", nameDepth)
	for _, tt := range []struct {
		name    string
		want    string // in the error's text
		archive []byte
	}{
		{"climbing name", `"../evil"`, packed(t, tarFile("../evil"))},
		{"climbing in the middle", `"a/../evil"`, packed(t, tarFile("a/../evil"))},
		{"absolute name", `"/evil"`, packed(t, tarFile("/evil"))},
		{"no name", `sent ""`, packed(t, tarFile(""))},
		{"the folder itself as a file", `"."`, packed(t, tarFile("."))},
		{"the folder itself as a link", `"."`, packed(t, tarLink(".", "deep"))},
		{"through a link of before", `"outward" is a link`, packed(t, tarFile("outward/.ssh/evil"))},
		{"through a link of before that stays inside", `"deep/inward" is a link`, packed(t, tarFile("deep/inward/evil"))},
		{"through a link of its own", `"l" is a link`, packed(t, tarDir("d"), tarLink("l", "d"), tarFile("l/evil"))},
		{"a folder over a link of before", `"outward" is a link`, packed(t, tarDir("outward"), tarFile("outward/evil"))},
		{"a folder over a link of its own", `"l" twice`, packed(t, tarLink("l", "deep"), tarDir("l"))},
		{"below a file", `"deep/f" is a link or a file`, packed(t, tarFile("deep/f/evil"))},
		{"a name twice", `"a" twice`, packed(t, tarFile("a"), tarFile("./a"))},
		{"a file, then a link", `"a" twice`, packed(t, tarFile("a"), tarLink("a", "mine"))},
		{"a link, then a file", `"a" twice`, packed(t, tarLink("a", "mine"), tarFile("a"))},
		{"a folder twice", `"d" twice`, packed(t, tarDir("d"), tarDir("d"))},
		{"hard link out", `"../../home/.ssh/config"`, packed(t, tarHard("h", "../../home/.ssh/config"))},
		{"hard link to a file of before", `second name of "mine"`, packed(t, tarHard("h", "mine"))},
		{"hard link to a link of before", `second name of "up"`, packed(t, tarHard("h", "up"))},
		{"hard link to a link of its own", `second name of "l"`, packed(t, tarLink("l", "mine"), tarHard("h", "l"))},
		{"hard link to a folder", `second name of "d"`, packed(t, tarDir("d"), tarHard("h", "d"))},
		{"hard link before its file", `second name of "a"`, packed(t, tarHard("h", "a"), tarFile("a"))},
		{"escape sequence", `"\x1b]0;x\a"`, packed(t, tarFile("\x1b]0;x\a"))},
		{"DEL", `"a\x7f"`, packed(t, tarFile("a\x7f"))},
		{"C1", `"a\u009b"`, packed(t, tarFile("a\u009b"))},
		{"newline in a folder", `"a\nb"`, packed(t, tarDir("a\nb"))},
		{"control character in a link's target", `\x1b`, packed(t, tarLink("l", "a\x1b"))},
		{"a file with a folder's name", `"a/" as something`, func() []byte {
			b := packed(t, tarFile("a"))
			b[1] = '/'
			copy(b[148:], fmt.Sprintf("%06o\x00 ", checksum(b[:512])))
			return b
		}()},
		{"GNU holes", "holes", sparse(t, false)},
		{"PAX holes", "holes", sparse(t, true)},
		{"unknown kind", `kind 'Z'`, packed(t, tarKind('Z', "z"))},
		{"contiguous file", `kind '7'`, packed(t, tarKind(tar.TypeCont, "z"))},
		{"global header", `kind 'g'`, packed(t, &tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"a": "b"}})},
		{"very deep", "deep", packed(t, tarFile(many+"evil"))},
		{"very long", "name of", packed(t, tarFile(strings.Repeat(strings.Repeat("n", 250)+"/", 20)+"n"))},
		{"cut in a file", "EOF", packed(t, tarFile("a"))[:514]},
		{"cut in a header", "EOF", packed(t, tarFile("a"), tarFile("b"))[:1100]},
		{"a file over a folder", "deep", packed(t, tarFile("deep"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outer := hostileFolder(t)
			for range 2 {
				l, err := openLanding(filepath.Join(outer, "to/in"), Limits{}, nil)
				must(t, err)
				l.begin()
				err = l.unpackTree(bytes.NewReader(tt.archive), RefuseOutside)
				must(t, l.close())
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want one with %s", err, tt.want)
				}
				checkHome(t, outer)
				if text, err := os.ReadFile(filepath.Join(outer, "to/in/mine")); string(text) != "kept" {
					t.Errorf("a file of before is %q, %v", text, err)
				}
			}
		})
	}
}

// TestUnpackTreeTakes unpacks entries that look dangerous but are safe.
func TestUnpackTreeTakes(t *testing.T) {
	outer := hostileFolder(t)
	in := filepath.Join(outer, "to/in")
	for range 2 {
		l, err := openLanding(in, Limits{}, nil)
		must(t, err)
		l.begin()
		must(t, l.unpackTree(bytes.NewReader(packed(t,
			tarDir("."), tarKind(tar.TypeFifo, "fifo"), tarKind(tar.TypeChar, "tty"), tarKind(tar.TypeBlock, "disk"),
			tarFile("up"), tarFile("outward"), // replace links
			tarFile("d/implied"), tarHard("twin", "d/implied"), tarLink("d/l", "../mine"), tarFile("..dots"), tarFile("\xff"),
		)), RefuseOutside))
		must(t, l.leftOut.err("none"))
		must(t, l.close())
		want := tree{
			"up": "evil", "outward": "evil", "d/implied": "evil", "twin": "evil", "d/l": "-> ../mine", "mine": "kept", "..dots": "evil", "\xff": "evil",
			"deep/f": "kept", "deep/inward": "-> ../deep",
		}
		for name := range want { // they are executable
			if want[name] == "evil" {
				must(t, os.Chmod(filepath.Join(in, name), 0o644))
			}
		}
		want.compare(t, in)
		checkHome(t, outer)
	}
}

// TestLinksThatLeadOut unpacks each link alone: it is made, or left out and named in the error.
func TestLinksThatLeadOut(t *testing.T) {
	for _, tt := range []struct {
		name, target string
		placed       bool
	}{
		{"l", "mine", true}, {"l", "./mine", true}, {"l", "nowhere", true}, {"l", "deep/f", true}, {"l", ".", true}, {"l", "deep//f", true},
		{"a/b/l", "../../mine", true}, {"a/b/l", "../..", true}, {"a/l", ".././mine", true}, {"a/l", "./../mine", true},
		{"l", "/etc/passwd", false}, {"l", "/", false}, {"l", "..", false}, {"l", "../to", false}, {"a/b/l", "../../..", false}, {"a/b/l", "../../../x", false},
		{"l", "deep/..", false}, {"l", "deep/inward/../../..", false}, {"a/l", "../deep/../mine", false}, // the text alone does not show whether the target is inside
		{"l", "outward", false}, {"l", "outward/.ssh", false}, {"l", "up", false}, {"deep/l", "../up", false}, // through existing links
	} {
		t.Run(tt.name+" to "+tt.target, func(t *testing.T) {
			for links, placed := range map[Links]bool{RefuseOutside: tt.placed, SkipOutside: tt.placed, KeepOutside: true} {
				outer := hostileFolder(t)
				in := filepath.Join(outer, "to/in")
				l, err := openLanding(in, Limits{}, nil)
				must(t, err)
				must(t, l.unpackTree(bytes.NewReader(packed(t, tarLink(tt.name, tt.target), tarFile("after"))), links))
				err = l.leftOut.err("links")
				must(t, l.close())
				if errors.Is(err, ErrOutsideLink) == placed || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q -> %q", tt.name, tt.target)) {
					t.Errorf("by %v: error %v", links, err)
				}
				if target, err := os.Readlink(filepath.Join(in, tt.name)); placed != (target == tt.target) {
					t.Errorf("by %v: the link leads to %q, %v", links, target, err)
				}
				if !exists(filepath.Join(in, "after")) {
					t.Error("the file after the link was not unpacked")
				}
				if links != KeepOutside {
					checkHome(t, outer)
				}
			}
		})
	}
}

// TestUnpackFileRefuses sends archives of anything but the one file x.
func TestUnpackFileRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		archive    []byte
	}{
		{"a link", `"./x" as a link`, packed(t, tarLink("./x", "home/.ssh"))},
		{"a folder", `"./x/"`, packed(t, tarDir("./x"))},
		{"a hard link", `second name`, packed(t, tarHard("./x", "mine"))},
		{"a pipe", `as a pipe`, packed(t, tarKind(tar.TypeFifo, "x"))},
		{"a device", `as a device`, packed(t, tarKind(tar.TypeChar, "x"))},
		{"another name", `"./y", which was not asked for`, packed(t, tarFile("./y"))},
		{"two", `"y", which was not asked for`, packed(t, tarFile("./x"), tarFile("y"))},
		{"twice", `"x" twice`, packed(t, tarFile("./x"), tarFile("./x"))},
		{"then a link", `as a link`, packed(t, tarFile("./x"), tarLink("./x", "/etc/passwd"))},
		{"holes", "holes", sparse(t, true)},
		{"none", "no file", packed(t)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outer := t.TempDir()
			tree{"home/.ssh/config": "untouched"}.make(t, outer)
			l, err := openLanding(outer, Limits{}, nil)
			must(t, err)
			defer l.close()
			l.begin()
			if err := l.unpackFile(bytes.NewReader(tt.archive), "x", "x"); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if info, err := os.Lstat(filepath.Join(outer, "x")); err == nil && !info.Mode().IsRegular() {
				t.Errorf("%v arrived", info.Mode())
			}
			os.Remove(filepath.Join(outer, "x"))
			tree{"home/.ssh/config": "untouched"}.compare(t, outer)
		})
	}
}

// TestUnpackFilesRefuses sends archives of anything but the files a and b.
func TestUnpackFilesRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		archive    []byte
	}{
		{"a link", `as a link`, packed(t, tarLink("./a", "../victim"))},
		{"then a link", `as a link`, packed(t, tarFile("./a"), tarFile("./b"), tarLink("./a", "../victim"))},
		{"then again", `"a" twice`, packed(t, tarFile("./a"), tarFile("./a"))},
		{"then a hard link", `second name of "c"`, packed(t, tarFile("./a"), tarHard("./b", "c"))},
		{"a hard link over a file", `"a" twice`, packed(t, tarFile("./a"), tarFile("./b"), tarHard("./a", "b"))},
		{"a hard link out", `"../victim", which climbs`, packed(t, tarHard("./a", "../victim"))},
		{"a folder", `"a/"`, packed(t, tarDir("a"))},
		{"a folder on the way", `not asked for`, packed(t, tarDir("d"))},
		{"a third", `"./c", which was not asked for`, packed(t, tarFile("./c"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outer := t.TempDir()
			tree{"victim": "untouched", "in/c": "kept"}.make(t, outer)
			l, err := openLanding(filepath.Join(outer, "in"), Limits{}, nil)
			must(t, err)
			defer l.close()
			l.begin()
			err = l.unpackFiles(bytes.NewReader(tt.archive), map[string]bool{"a": true, "b": true}, map[string]arrival{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %s", err, tt.want)
			}
			os.Remove(filepath.Join(outer, "in/a"))
			os.Remove(filepath.Join(outer, "in/b"))
			tree{"victim": "untouched", "in/c": "kept"}.compare(t, outer)
		})
	}
}

// TestCheckLooksAgain changes a file between its arrival and the check.
func TestCheckLooksAgain(t *testing.T) {
	for name, change := range map[string]func(in string) error{
		"a link": func(in string) error { os.Remove(in + "/a"); return os.Symlink("../victim", in+"/a") },
		"another file": func(in string) error {
			os.Rename(in+"/a", in+"/was")
			return os.WriteFile(in+"/a", []byte("good"), 0o600)
		},
		"a hard link": func(in string) error { os.Remove(in + "/a"); return os.Link(in+"/../victim", in+"/a") },
		"a folder":    func(in string) error { os.Remove(in + "/a"); return os.Mkdir(in+"/a", 0o700) },
		"longer":      func(in string) error { return os.WriteFile(in+"/a", []byte("longer"), 0o600) },
		"gone":        func(in string) error { return os.Remove(in + "/a") },
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			write(t, filepath.Join(outer, "victim"), "evil")
			l, err := openLanding(filepath.Join(outer, "in"), Limits{}, nil)
			must(t, err)
			defer l.close()
			arrived := map[string]arrival{}
			must(t, l.unpackFiles(bytes.NewReader(packed(t, tarFile("a"))), map[string]bool{"a": true}, arrived))
			sums := []string{arrived["a"].SHA256}
			if got, err := l.check(arrived, []string{"./a"}, sums); err != nil || len(got) != 1 {
				t.Fatalf("%v, %v", got, err)
			}
			must(t, change(filepath.Join(outer, "in")))
			if got, err := l.check(arrived, []string{"./a"}, sums); err == nil || got != nil {
				t.Errorf("Fetch returned %v, which was changed after the check", got)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	big := &tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: 1 << 40}
	var b bytes.Buffer
	must(t, tar.NewWriter(&b).WriteHeader(big))
	for _, tt := range []struct {
		name    string
		most    Limits
		archive []byte
		limit   *LimitError
	}{
		{"enough", Limits{Bytes: 8, Files: 3}, packed(t, tarFile("a"), tarFile("b"), tarLink("l", "a")), nil},
		{"bytes", Limits{Bytes: 7}, packed(t, tarFile("a"), tarFile("b")), &LimitError{Most: 7}},
		{"files", Limits{Files: 2}, packed(t, tarFile("a"), tarFile("b"), tarLink("l", "a")), &LimitError{Files: true, Most: 2}},
		{"devices count", Limits{Files: 1}, packed(t, tarKind(tar.TypeChar, "a"), tarKind(tar.TypeFifo, "b")), &LimitError{Files: true, Most: 1}},
		{"a size that is only said", Limits{Bytes: 1 << 30, Files: 1}, b.Bytes(), &LimitError{Most: 1 << 30}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := openLanding(dir, tt.most, nil)
			must(t, err)
			defer l.close()
			for range 3 { // the same names again do not count twice
				l.begin()
				err := l.unpackTree(bytes.NewReader(tt.archive), RefuseOutside)
				var got *LimitError
				if errors.As(err, &got); (got == nil) != (tt.limit == nil) || got != nil && *got != *tt.limit {
					t.Errorf("error %v, want %v", err, tt.limit)
				}
			}
			if exists(filepath.Join(dir, "big")) {
				t.Error("a file arrived that was too big")
			}
			l.begin()
			if err := l.unpackTree(bytes.NewReader(packed(t, tarFile("c"), tarFile("d"))), RefuseOutside); err == nil {
				t.Error("other names in every try are not counted together")
			}
		})
	}
}

// TestHeaderWithoutEnd sends extensions of a header without end. The header itself never comes.
func TestHeaderWithoutEnd(t *testing.T) {
	long := packed(t, &tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("n", 200), Format: tar.FormatGNU})[:1024]
	l, err := openLanding(t.TempDir(), Limits{}, nil)
	must(t, err)
	defer l.close()
	endless := &repeated{text: long}
	err = l.unpackTree(endless, RefuseOutside)
	if err == nil || endless.n > 2*headerBytes {
		t.Errorf("%d bytes of headers were read: %v", endless.n, err)
	}
}

// A repeated is a reader that repeats its text without end.
type repeated struct {
	text []byte
	n    int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.n%len(r.text):])
	r.n += n
	return n, nil
}

func FuzzUnpack(f *testing.F) {
	for _, headers := range [][]*tar.Header{
		{tarFile("a/b"), tarLink("l", ".."), tarHard("h", "a/b")}, {tarDir("d"), tarLink("d/l", "../mine"), tarFile("d/l")},
		{tarLink("m", "up"), tarFile("outward/f")}, {tarKind(tar.TypeFifo, "p")}, {tarFile("deep/inward/x")},
	} {
		f.Add(packed(f, headers...))
	}
	f.Add(sparse(f, true))
	f.Add(sparse(f, false))
	f.Fuzz(func(t *testing.T, archive []byte) {
		outer := hostileFolder(t)
		for _, take := range []func(l *landing, rd io.Reader) error{
			func(l *landing, rd io.Reader) error { return l.unpackTree(rd, RefuseOutside) },
			func(l *landing, rd io.Reader) error { return l.unpackFile(rd, "a", "a") },
			func(l *landing, rd io.Reader) error {
				arrived := map[string]arrival{}
				err := l.unpackFiles(rd, map[string]bool{"a": true, "a/b": true, "h": true}, arrived)
				if err != nil {
					return nil
				}
				var names, sums []string
				for name, a := range arrived {
					names, sums = append(names, "./"+name), append(sums, a.SHA256)
				}
				_, err = l.check(arrived, names, sums)
				if err != nil {
					t.Errorf("the files that arrived are not those that were returned: %v", err)
				}
				return err
			},
		} {
			l, err := openLanding(filepath.Join(outer, "to/in"), Limits{Bytes: 1 << 20, Files: 100}, nil)
			must(t, err)
			l.begin()
			take(l, bytes.NewReader(archive))
			must(t, l.close())
			checkHome(t, outer)
		}
	})
}
