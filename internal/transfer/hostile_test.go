package transfer

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// lying returns a node whose programs are the given shell scripts. $LIES is a folder for the scripts' use, which
// the test sees as lies.
func lying(t *testing.T, programs map[string]string) (r *Remote, lies string) {
	t.Helper()
	bin := t.TempDir()
	lies = t.TempDir()
	for name, script := range programs {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nLIES="+quote(lies)+"\n"+script+"\n"), 0o755))
	}
	s := opensshtest.Start(t, opensshtest.Config(fmt.Sprintf("SetEnv PATH=%s:/usr/local/bin:/usr/bin:/bin HOME=%s", bin, t.TempDir())))
	r = reach(t, s, s.Addr)
	r.Tools.SHA256 = "sha256sum"
	return r, lies
}

// inTurns is a tar that sends the next archive at each call.
const inTurns = `n=$(ls "$LIES" | grep -c sent)
: >"$LIES/sent$n"
cat "$LIES/archive$n"`

// TestDownloadRetryFollowsNoLink downloads twice from a node that first sends a link for the requested file, and then
// says that the file is a folder.
func TestDownloadRetryFollowsNoLink(t *testing.T) {
	for name, archives := range map[string][][]byte{
		"a link, then a folder": {packed(t, tarLink("./x", "home/.ssh")), packed(t, tarFile("./authorized_keys"))},
		"a folder of links":     {packed(t, tarLink("./l", "../home/.ssh")), packed(t, tarFile("./l/authorized_keys"))},
		"links that stay":       {packed(t, tarDir("./d"), tarLink("./l", "d")), packed(t, tarFile("./l/authorized_keys"))},
	} {
		for _, first := range []string{"file", "folder"} {
			t.Run(name+" after a "+first, func(t *testing.T) {
				r, lies := lying(t, map[string]string{"tar": inTurns})
				at := filepath.Join(r.Dir, "x")
				if first == "file" {
					write(t, at, "x")
				} else {
					must(t, os.Mkdir(at, 0o755))
				}
				for i, a := range archives {
					must(t, os.WriteFile(fmt.Sprintf("%s/archive%d", lies, i), a, 0o644))
				}
				local := t.TempDir()
				tree{"home/.ssh/config": "untouched"}.make(t, local)
				for range archives {
					r.Download(t.Context(), "x", local, DownloadOptions{})
					os.RemoveAll(at)
					must(t, os.Mkdir(at, 0o755)) // now the node claims that it is a folder
				}
				tree{".ssh/config": "untouched"}.compare(t, filepath.Join(local, "home"))
				if found, _ := os.ReadDir(filepath.Join(local, "x/d")); len(found) > 0 {
					t.Errorf("a link was followed: %v", found)
				}
			})
		}
	}
}

// TestFetchRefusesLies fetches from a node that invents its archive and its checksums.
func TestFetchRefusesLies(t *testing.T) {
	evil := sha256.Sum256([]byte("evil"))
	sum := func(name string) string { return fmt.Sprintf("%x  ./%s\n", evil, name) }
	for _, tt := range []struct {
		name    string
		archive []byte
		sums    string
		want    string
	}{
		{"honest", packed(t, tarFile("./a"), tarFile("./b")), sum("a") + sum("b"), ""},
		{"two names of one file", packed(t, tarFile("./a"), tarHard("./b", "./a")), sum("a") + sum("b"), ""},
		{"again as a link to a secret", packed(t, tarFile("./a"), tarFile("./b"), tarLink("./a", "../secret")), sum("a") + sum("b"), `"./a" as a link`},
		{"a link to a secret", packed(t, tarLink("./a", "../secret"), tarFile("./b")), sum("a") + sum("b"), `"./a" as a link`},
		{"a hard link to a file of before", packed(t, tarFile("./a"), tarHard("./b", "old")), sum("a") + sum("b"), `second name of "old"`},
		{"a file that nothing asked for", packed(t, tarFile("./a"), tarFile("./b"), tarFile("./c")), sum("a") + sum("b"), `"./c", which was not asked for`},
		{"one is missing", packed(t, tarFile("./a")), sum("a") + sum("b"), `did not send "b"`},
		{"other content", packed(t, tarFile("./a"), tarFile("./b")), sum("a") + strings.Repeat("0", 64) + "  ./b\n", `"b" is not what the node has`},
		{"too few sums", packed(t, tarFile("./a"), tarFile("./b")), sum("a"), "1 sums for 2 files"},
		{"too many sums", packed(t, tarFile("./a"), tarFile("./b")), sum("a") + sum("b") + sum("c"), "more than 2 sums"},
		{"no sums", packed(t, tarFile("./a"), tarFile("./b")), "what\n", `reports "what\n" as the sum`},
		{"a long line", packed(t, tarFile("./a"), tarFile("./b")), fmt.Sprintf("%x", evil) + strings.Repeat("x", 1<<20), `as the sum`},
		{"much of nothing", packed(t, tarFile("./a"), tarFile("./b")), strings.Repeat("\x00", 2<<20), "zero bytes after its archive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, lies := lying(t, map[string]string{"tar": `cat "$LIES/archive"`, "sha256sum": `cat "$LIES/sums"`})
			tree{"a": "honest", "b": "honest"}.make(t, r.Dir)
			must(t, os.WriteFile(filepath.Join(lies, "archive"), tt.archive, 0o644))
			must(t, os.WriteFile(filepath.Join(lies, "sums"), []byte(tt.sums), 0o644))
			outer := t.TempDir()
			tree{"secret": "secret", "in/old": "old"}.make(t, outer)
			got, err := r.Fetch(t.Context(), []string{"*"}, filepath.Join(outer, "in"), FetchOptions{})
			if tt.want == "" {
				if err != nil || len(got) != 2 {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || got != nil {
				t.Errorf("%v, error %v, want one with %q", got, err, tt.want)
			}
			// No unchecked file stays.
			tree{"secret": "secret", "in/old": "old"}.compare(t, outer)
		})
	}
}

// TestNodeThatDoesNotStop reads from a node that prints without end.
func TestNodeThatDoesNotStop(t *testing.T) {
	down := func(t *testing.T, r *Remote) error {
		return r.Download(t.Context(), "d", t.TempDir(), DownloadOptions{})
	}
	fetch := func(t *testing.T, r *Remote) error {
		_, err := r.Fetch(t.Context(), []string{"d/*"}, t.TempDir(), FetchOptions{Limits: Limits{Files: 1000}})
		return err
	}
	for _, tt := range []struct {
		name, program, says string
		do                  func(*testing.T, *Remote) error
		want                string
	}{
		{"after an archive", "tar", `cat "$LIES/archive"; exec yes`, down, "not asked for"},
		{"sums", "sha256sum", "exec yes", fetch, "as the sum"},
		{"names", "find", "exec yes '//- ./a'", fetch, errListing.Error()},
		{"names that do not match", "find", "exec yes '//- ./a/b'", fetch, errListing.Error()},
		{"one name", "find", "printf '//- ./'; exec tr '\\000' n </dev/zero", fetch, "name of more than"},
		{"many names", "find", `seq -f '//- ./%.0f' 1 100000`, fetch, "more than 1000 files"},
		{"what is there", "xargs", "exec yes '//81a4 1 5 ./a'", func(t *testing.T, r *Remote) error {
			return r.Upload(t.Context(), filepath.Join(r.Dir, "d"), "d", Options{})
		}, errListing.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, lies := lying(t, map[string]string{tt.program: tt.says})
			tree{"d/a": "evil"}.make(t, r.Dir)
			must(t, os.WriteFile(filepath.Join(lies, "archive"), packed(t, tarFile("a")), 0o644))
			if err := tt.do(t, r); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestReadKind(t *testing.T) {
	for text, want := range map[string]string{
		"folder\nx": "", "file\nx": "", "fil": "EOF", "": "EOF", "greeting\nfile\n": `"greetin"`, strings.Repeat("x", 1<<20): `"xxxxxxx"`,
	} {
		isFolder, err := readKind(bufio.NewReader(strings.NewReader(text)))
		if want == "" && (err != nil || isFolder != strings.HasPrefix(text, "folder")) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20q: %v, %v; want %q", text, isFolder, err, want)
		}
	}
}

func FuzzMatching(f *testing.F) {
	for _, s := range []string{
		"//#0\n//- ./a\n//- ./b\nc\n", "//#1.\n//- ./f\n", "//=2024-01-02 03:04:05.678 +0000\n//#0\n//2024-01-02 03:04:05.6 +0000 ./x\n//#2\n",
		"//#9\n", "//- ./a", "//#0\n//- ../x\n//- ./../x\n", "//#-1", "//#0x0\n",
		"//=2024-01-02 03:04:05.678 +0000\n//@1704164650\n//#0\n//2024-01-02 03:04:05.7 +0000 12 ./x\n", "//@1\n//#0\n//7 ./x\n", "//@x\n",
	} {
		f.Add(s)
	}
	var globs []glob
	for _, text := range []string{"**", "f", "d/*.json"} {
		g, err := parseGlob(text)
		must(f, err)
		globs = append(globs, g)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, err := matching(globs, strings.NewReader(text), Limits{Files: 10})
		var names []string
		for i := range found {
			names = append(names, found[i].name)
			if found[i].size < 0 {
				t.Errorf("%q lists %+v", text, found[i])
			}
		}
		if len(names) > 10 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) || err != nil && names != nil {
			t.Errorf("%q lists %q, %v", text, names, err)
		}
	})
}

func FuzzSums(f *testing.F) {
	line := strings.Repeat("0A", sha256.Size) + "  ./a\n"
	f.Add("\x00\x00"+line+line, 2)
	f.Add(line, 2)
	f.Add(line+line, 1)
	f.Add(strings.TrimSpace(line), 1)
	f.Add("what", 1)
	f.Add(line+"-\n", 2)
	f.Fuzz(func(t *testing.T, text string, n int) {
		if sums, err := readSums(strings.NewReader(text), n, true); err == nil && len(sums) != max(n, 0) {
			t.Errorf("%q has %d sums, some gone, want %d", text, len(sums), n)
		}
		sums, err := readSums(strings.NewReader(text), n, false)
		if err == nil && len(sums) != max(n, 0) {
			t.Errorf("%q has %d sums, want %d", text, len(sums), n)
		}
		for _, s := range sums {
			if b, err := hex.DecodeString(s); err != nil || len(b) != sha256.Size || s != strings.ToLower(s) {
				t.Errorf("%q has the sum %q", text, s)
			}
		}
	})
}

func FuzzCompare(f *testing.F) {
	items := []item{{name: "a", mode: 0o644, size: 1, mtime: time.Unix(5, 0)}, {name: "d", mode: fs.ModeDir}, {name: "d/l", mode: fs.ModeSymlink | 0o777, target: "x"}}
	for _, s := range []string{"//81a4 1 5 ./a\n", "//41ed 0 0 ./d\n//a1ff 1 0 ./d/l\n", "//8da4 1 5 ./a\n", "//ffffffffffffffffff 1 5 ./a", "////", "//81a4 -1 -5 ./a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		same := make([]bool, len(items))
		if err := compare(strings.NewReader(text), items, same); err != nil {
			return
		}
		for i, same := range same {
			if same && !strings.Contains(text, " ./"+items[i].name) {
				t.Errorf("%q has %q", text, items[i].name)
			}
		}
	})
}
