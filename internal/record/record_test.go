package record

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rec(head string, body ...string) Record {
	return Record{Head: []byte(head), Body: []byte(strings.Join(body, ""))}
}

// show returns what a reader yields, one line for each.
func show(recs iter.Seq2[Record, error]) []string {
	var lines []string
	for r, err := range recs {
		if damage, ok := errors.AsType[*DamageError](err); ok {
			lines = append(lines, fmt.Sprintf("damage at line %d, %d+%d: %s", damage.Line, damage.Offset, damage.Length, damage.Reason))
		} else if torn, ok := errors.AsType[*TornError](err); ok {
			lines = append(lines, fmt.Sprintf("torn at %d", torn.Offset))
		} else if err != nil {
			lines = append(lines, "error: "+err.Error())
		} else {
			lines = append(lines, strings.TrimSpace(string(r.Head)+" "+string(r.Body)))
		}
	}
	return lines
}

func wants(t testing.TB, recs iter.Seq2[Record, error], want ...string) {
	t.Helper()
	if got := show(recs); !slices.Equal(got, want) {
		t.Errorf("got\n\t%q\nwant\n\t%q", got, want)
	}
}

// newFile returns a file with some records.
func newFile(t testing.TB, recs ...Record) (string, *File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	f, err := Create(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	must(t, f.Append(true, recs...))
	return path, f
}

func TestFile(t *testing.T) {
	path, f := newFile(t, rec(`{"a":1}`), rec(`{"a":2}`, "two\nlines\n\x00"))
	must(t, f.Append(false, rec(`{"a":3}`)))
	must(t, f.Sync())
	b, err := os.ReadFile(path)
	must(t, err)
	// This format must not change: programs of other versions read it.
	if want := "5d30065c 0 {\"a\":1}\n27ec2f7d 11:2514f8e4 {\"a\":2}\ntwo\nlines\n\x00\n7a7536b2 0 {\"a\":3}\n"; string(b) != want {
		t.Errorf("the file is %q", b)
	}
	wants(t, Read(path), `{"a":1}`, "{\"a\":2} two\nlines\n\x00", `{"a":3}`)
	if f.Size() != int64(len(b)) {
		t.Errorf("size %d, of %d", f.Size(), len(b))
	}
	if info, err := f.Stat(); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create of the same name: %v", err)
	}
	must(t, f.Close())
	must(t, f.Close())
	if err := f.Append(true, rec("{}")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	var seen int
	f, err = Open(path, func(_ Record, err error) error { seen++; return err })
	must(t, err)
	defer f.Close()
	must(t, f.Append(true, rec(`{"a":4}`)))
	if got := show(Read(path)); seen != 3 || len(got) != 4 || got[3] != `{"a":4}` {
		t.Errorf("after %d came %q", seen, got)
	}
	for range Read(path) {
		break // leaving early is no panic
	}
	for _, err := range Read(path + "x") {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a file: %v", err)
		}
	}
}

func TestNoRecord(t *testing.T) {
	path, f := newFile(t, rec("{}"))
	for _, bad := range []Record{rec(""), rec("{\n}"), {Head: make([]byte, MaxHead+1)}} {
		if err := f.Append(true, rec(`{"good":1}`), bad); err == nil {
			t.Errorf("Append accepts the head %.10q", bad.Head)
		}
	}
	must(t, f.Append(true, Record{Head: bytes.Repeat([]byte("x"), MaxHead)}))
	if got := show(Read(path)); len(got) != 2 || len(got[1]) != MaxHead {
		t.Errorf("got %d records", len(got))
	}
}

// A file that is cut anywhere has the records before its last append, and after another append it
// is undamaged.
func TestTorn(t *testing.T) {
	path, f := newFile(t, rec(`{"a":1}`), rec(`{"a":2}`, "body\nbody"))
	kept := f.Size()
	must(t, f.Append(true, rec(`{"a":3}`, "0 1 2\n3 4")))
	whole, err := os.ReadFile(path)
	must(t, err)
	for n := kept; n < int64(len(whole)); n++ {
		for _, tail := range [][]byte{nil, make([]byte, int64(len(whole))-n)} { // cut, or of the same length with zeros
			must(t, os.WriteFile(path, append(whole[:n:n], tail...), 0o600))
			want := []string{`{"a":1}`, "{\"a\":2} body\nbody"}
			if n > kept || tail != nil {
				want = append(want, fmt.Sprintf("torn at %d", kept))
			}
			wants(t, Read(path), want...)
			g, err := Open(path, nil)
			must(t, err)
			must(t, g.Append(true, rec(`{"a":4}`)))
			must(t, g.Close())
			wants(t, Read(path), append(want[:2:2], `{"a":4}`)...)
		}
	}
}

func TestDamage(t *testing.T) {
	line := func(r Record) string { b, err := appendRecord(nil, r); must(t, err); return string(b) }
	one, two, three := line(rec(`{"a":1}`)), line(rec(`{"a":2}`, "body\nbody")), line(rec(`{"a":3}`))
	inner := line(rec(`{"forged":1}`))
	wrapped := line(rec(`{"a":5}`, inner, inner))
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"edited":            {strings.Replace(one, "1}", "9}", 1) + two, []string{"damage at line 1, 0+19: the checksum is wrong", "{\"a\":2} body\nbody"}},
		"edited, last":      {two + strings.Replace(one, "1}", "9}", 1), []string{"{\"a\":2} body\nbody", fmt.Sprintf("torn at %d", len(two))}},
		"two edited, last":  {three + "x\ny\n", []string{`{"a":3}`, "damage at line 2, 19+4: there is no checksum"}},
		"and cut":           {three + "x\ny\nz", []string{`{"a":3}`, "damage at line 2, 19+4: there is no checksum", "torn at 23"}},
		"a line inserted":   {one + "hello\n" + three, []string{`{"a":1}`, "damage at line 2, 19+6: there is no checksum", `{"a":3}`}},
		"an empty line":     {one + "\n" + three, []string{`{"a":1}`, "damage at line 2, 19+1: there is no checksum", `{"a":3}`}},
		"a line gone":       {one + three, []string{`{"a":1}`, `{"a":3}`}},
		"the body":          {strings.Replace(two, "y\nb", "i\nb", 1) + three, []string{fmt.Sprintf("damage at line 1, 0+%d: the checksum of the body is wrong", len(two)), `{"a":3}`}},
		"its end":           {strings.TrimSuffix(two, "\n") + "x" + three, []string{fmt.Sprintf("damage at line 1, 0+%d: the checksum of the body is wrong", len(two)), `{"a":3}`}},
		"the body, last":    {one + strings.Replace(two, "y\nb", "i\nb", 1), []string{`{"a":1}`, "torn at 19"}},
		"the line before":   {strings.Replace(two, `{"a":2}`, `{"a":9}`, 1) + three, []string{fmt.Sprintf("damage at line 1, 0+%d: the checksum is wrong", len(two)), `{"a":3}`}},
		"binary":            {one + "\x00\xff\x00\n" + three, []string{`{"a":1}`, "damage at line 2, 19+4: there is no checksum", `{"a":3}`}},
		"a line for ever":   {one + strings.Repeat("x", 3*MaxHead) + "\n" + three, []string{`{"a":1}`, fmt.Sprintf("damage at line 2, 19+%d: there is no checksum", 3*MaxHead+1), `{"a":3}`}},
		"never a line":      {one + strings.Repeat("\x00", 3*MaxHead), []string{`{"a":1}`, "torn at 19"}},
		"inside a cut body": {one + wrapped[:len(wrapped)-3], []string{`{"a":1}`, "torn at 19"}},
		"inside a bad body": {one + strings.Replace(wrapped, "forged\":1}\n", "forged\":2}\n", 1) + three, []string{`{"a":1}`, fmt.Sprintf("damage at line 2, 19+%d: the checksum of the body is wrong", len(wrapped)), `{"a":3}`}},
		"nothing":           {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			must(t, os.WriteFile(path, []byte(tt.file), 0o600))
			wants(t, Read(path), tt.want...)
			if b, err := os.ReadFile(path); err != nil || string(b) != tt.file {
				t.Errorf("reading changed the file: %v", err)
			}
			f, err := Open(path, nil)
			must(t, err)
			must(t, f.Append(true, rec(`{"a":6}`)))
			must(t, f.Close())
			want := slices.DeleteFunc(slices.Clone(tt.want), func(s string) bool { return strings.HasPrefix(s, "torn") })
			wants(t, Read(path), append(want, `{"a":6}`)...)
		})
	}
}

func TestMissed(t *testing.T) {
	path, mine := newFile(t, rec(`{"a":1}`))
	other, err := Open(path, nil)
	must(t, err)
	defer other.Close()
	must(t, other.Append(true, rec(`{"a":2}`), rec(`{"a":3}`)))
	raw, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer raw.Close()
	_, err = raw.WriteString("0123 torn")
	must(t, err)
	var got []string
	must(t, mine.Missed(func(r Record, err error) error {
		if !isFinding(err) {
			return err
		}
		got = append(got, string(r.Head))
		return nil
	}))
	if want := []string{`{"a":2}`, `{"a":3}`, ""}; !slices.Equal(got, want) {
		t.Errorf("Missed yields %q, want %q", got, want)
	}
	must(t, mine.Append(true, rec(`{"a":4}`)))
	wants(t, Read(path), `{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":4}`)
	stop := errors.New("stop")
	if _, err := Open(path, func(Record, error) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the caller's: %v", err)
	}
	must(t, os.Truncate(path, 3))
	if err := mine.Missed(nil); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a file that has become shorter: %v", err)
	}
}

func TestRewrite(t *testing.T) {
	path, f := newFile(t, rec(`{"a":1}`), rec(`{"a":2}`, strings.Repeat("b", 300<<10)), rec(`{"a":3}`))
	must(t, f.Close())
	must(t, os.WriteFile(path+Unfinished, []byte("of a crash"), 0o600))
	odd := func(yield func(Record, error) bool) {
		for r, err := range Read(path) {
			if err != nil || string(r.Head) != `{"a":3}` {
				if !yield(r, err) {
					return
				}
			}
		}
	}
	before := show(Read(path))
	f, err := Rewrite(path, true, odd)
	must(t, err)
	defer f.Close()
	must(t, f.Append(true, rec(`{"a":4}`)))
	wants(t, Read(path), append(before[:2:2], `{"a":4}`)...)
	stop := errors.New("stop")
	if _, err := Rewrite(path, true, func(yield func(Record, error) bool) { _ = yield(rec("{}"), nil) && yield(Record{}, stop) }); !errors.Is(err, stop) {
		t.Errorf("an error of the caller's: %v", err)
	}
	wants(t, Read(path), append(before[:2:2], `{"a":4}`)...)
	if names, _ := filepath.Glob(filepath.Dir(path) + "/*"); len(names) != 1 {
		t.Errorf("the files %q are left", names)
	}
}

func TestConcurrent(t *testing.T) {
	path, f := newFile(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				if err := f.Append(j == 25, rec(fmt.Sprintf(`{"i":%d,"j":%d}`, i, 2*j)), rec(fmt.Sprintf(`{"i":%d,"j":%d}`, i, 2*j+1), "body")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 { // concurrent readers see a prefix
		for _, err := range Read(path) {
			if _, torn := errors.AsType[*TornError](err); err != nil && !torn {
				t.Error(err)
			}
		}
	}
	all.Wait()
	next := map[byte]int{}
	for r, err := range Read(path) {
		must(t, err)
		i := r.Head[5]
		if want := fmt.Sprintf(`{"i":%c,"j":%d}`, i, next[i]); string(r.Head) != want {
			t.Fatalf("got %s, want %s", r.Head, want)
		}
		next[i]++
	}
	if len(next) != 8 || next['3'] != 100 {
		t.Errorf("got %v", next)
	}
}

// Whatever a file's change, a reader yields no record that was not written, and all records before
// the first change.
func TestChangedAnywhere(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		var file []byte
		var heads []string
		var ends []int
		for i := range 1 + r.IntN(6) {
			head := fmt.Sprintf(`{"n":%d,"salt":%d}`, i, r.Uint64())
			body := make([]byte, r.IntN(3)*r.IntN(40))
			for i := range body {
				body[i] = "\n 0a:"[r.IntN(5)]
			}
			file, _ = appendRecord(file, Record{[]byte(head), body})
			heads, ends = append(heads, head), append(ends, len(file))
		}
		at := r.IntN(len(file))
		switch r.IntN(3) {
		case 0:
			file[at] ^= byte(1 + r.IntN(255))
		case 1:
			file = slices.Delete(file, at, at+1+r.IntN(len(file)-at))
		case 2:
			file = slices.Insert(file, at, []byte("\n0123456 \n")[r.IntN(9):]...)
		}
		var got []string
		for rec, err := range scan(file) {
			if err == nil {
				got = append(got, string(rec.Head))
			} else if !isFinding(err) {
				t.Fatal(err)
			}
		}
		before, _ := slices.BinarySearch(ends, at+1)
		if before > 0 && ends[before-1] > at {
			before--
		}
		if len(got) < before || !slices.Equal(got[:before], heads[:before]) {
			t.Fatalf("changed at %d of %q: got %q, want %q first", at, file, got, heads[:before])
		}
		for _, head := range got {
			if !slices.Contains(heads, head) {
				t.Fatalf("changed at %d of %q: %q was never written", at, file, head)
			}
		}
	}
}

// scan reads records from memory.
func scan(b []byte) iter.Seq2[Record, error] {
	return newScanner(bytes.NewReader(b), "f", position{}, int64(len(b))).each
}

func FuzzRead(f *testing.F) {
	one, _ := appendRecord(nil, rec(`{"a":1}`))
	two, _ := appendRecord(one, rec(`{"a":2}`, "body"))
	f.Add(one)
	f.Add(two)
	f.Add(two[:len(two)-1])
	f.Add(append([]byte("x\n"), two...))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The first line's checksum is corrected, so that its false content is accepted.
		if i := bytes.IndexByte(b, '\n'); i > 9 {
			b = slices.Clone(b)
			believe(b[:i])
		}
		var next int64
		ended := false
		for r, err := range scan(b) {
			if ended {
				t.Fatal("a record was yielded after the last error")
			}
			damage, _ := errors.AsType[*DamageError](err)
			torn, _ := errors.AsType[*TornError](err)
			switch {
			case damage != nil:
				if damage.Offset < next || damage.Length <= 0 || damage.Offset+damage.Length > int64(len(b)) {
					t.Fatalf("%v, after %d of %d", damage, next, len(b))
				}
				next = damage.Offset + damage.Length
			case torn != nil:
				if torn.Offset < next || torn.Offset >= int64(len(b)) {
					t.Fatalf("%v, after %d of %d", torn, next, len(b))
				}
				ended = true
			case err != nil:
				t.Fatal(err)
			default:
				again, err := appendRecord(nil, r)
				if err != nil || !bytes.HasPrefix(b[next:], again) {
					t.Fatalf("%q at %d is not what was written: %q, %v", r, next, again, err)
				}
				next += int64(len(again))
			}
		}
		if !ended && next != int64(len(b)) {
			t.Fatalf("the records and errors cover %d of %d bytes", next, len(b))
		}
		// Whether bodies are kept or skipped, the records end at the same place.
		kept, skipped := newScanner(bytes.NewReader(b), "f", position{}, int64(len(b))), newScanner(bytes.NewReader(b), "f", position{}, int64(len(b)))
		skipped.skip = true
		for range kept.each {
		}
		for range skipped.each {
		}
		if kept.end != skipped.end {
			t.Fatalf("the records end at %v with bodies kept, and at %v with bodies skipped", kept.end, skipped.end)
		}
	})
}

// believe corrects the checksum of a line.
func believe(line []byte) {
	copy(line, sumOf(line[9:]))
	line[8] = ' '
}

func sumOf(b []byte) []byte { return appendSum(nil, crc32.Checksum(b, castagnoli)) }

// A length that exceeds the file allocates nothing.
func TestLyingLength(t *testing.T) {
	for _, length := range []string{"1000000000000:00000000", "1000000000:00000000", "9223372036854775807:00000000", "9223372036854775806:00000000", "99999999999999999999:00000000", "-1", "5", "0:00000000", "+5:00000000", "05:00000000"} {
		rest := length + " {}"
		file := []byte(string(sumOf([]byte(rest))) + " " + rest + "\n")
		last, _ := appendRecord(nil, rec(`{"last":1}`))
		file = append(file, last...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, err := range scan(file) {
			if !isFinding(err) {
				t.Error(err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", length, n)
		}
	}
}

func benchmark(b *testing.B, sync bool, r Record) {
	f, err := Create(filepath.Join(b.TempDir(), "f"))
	must(b, err)
	defer f.Close()
	b.ReportAllocs()
	b.SetBytes(int64(len(r.Head) + len(r.Body)))
	for b.Loop() {
		if err := f.Append(sync, r); err != nil {
			b.Fatal(err)
		}
	}
}

var small = rec(`{"task":"t123-a1","state":"done","node":3,"at":"2026-01-02T03:04:05Z"}`, "forty-two")

func BenchmarkAppend(b *testing.B)       { benchmark(b, false, small) }
func BenchmarkAppendSynced(b *testing.B) { benchmark(b, true, small) }
func BenchmarkAppendMiB(b *testing.B) {
	benchmark(b, false, Record{Head: []byte("{}"), Body: make([]byte, 1<<20)})
}

// BenchmarkWrite measures the system's write alone.
func BenchmarkWrite(b *testing.B) {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "f"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(b, err)
	defer f.Close()
	line, _ := appendRecord(nil, small)
	for b.Loop() {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	var file []byte
	for range 1000 {
		file, _ = appendRecord(file, small)
	}
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		for range scan(file) {
		}
	}
}
