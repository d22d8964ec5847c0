package gputrain

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestLinesHavePrefixes(t *testing.T) {
	var out bytes.Buffer
	secrets := &redactor{}
	secrets.learn(map[string]Secret{"K": "hunter2\nsecond line", "SHORT": "ab"})
	o := newOutput(options{stdout: &out}, secrets)
	a, none := o.writers("a")
	b, _ := o.writers("b")
	if none != nil {
		t.Error("nobody watches stderr")
	}
	none.Write([]byte("lost"))
	none.flush()
	for _, s := range []string{"one\ntw", "o\n", "ab hun", "ter2\r\n", "second line\n", "\n", "end"} {
		a.Write([]byte(s))
		b.Write([]byte("x"))
	}
	a.flush()
	b.flush()
	a.flush()
	want := "[a] one\n[a] two\n[a] ab [redacted]\n[a] [redacted]\n[a] \n[a] end\n[b] xxxxxxx\n"
	if out.String() != want {
		t.Errorf("got %q\nwant %q", out.String(), want)
	}
}

func TestLongLinesAreNotHeldForEver(t *testing.T) {
	var out bytes.Buffer
	w, _ := newOutput(options{stdout: &out}, &redactor{}).writers("a")
	for range 40 {
		w.Write(bytes.Repeat([]byte("x"), 4<<10))
	}
	if len(w.held) >= longestLine || out.Len() < 2*longestLine {
		t.Errorf("%d bytes are held, %d were printed", len(w.held), out.Len())
	}
}

func TestSpoolSpills(t *testing.T) {
	dir := newResultsDir("p", t.TempDir(), "", Limits{})
	s := newSpool(dir, &outputShare{of: dir.memory}, "t1-a1", "stdout", DefaultOutputBytes, nil)
	var whole bytes.Buffer
	for i := range 300 {
		p := []byte(strings.Repeat(fmt.Sprintf("%d ", i), 2000))
		whole.Write(p)
		if _, err := s.Write(p); err != nil {
			t.Fatal(err)
		}
		if i == 50 {
			if _, err := os.Stat(dir.path + "/t1-a1"); err == nil {
				t.Error("the folder was made before it was needed")
			}
		}
	}
	path, err := s.close()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, whole.Bytes()) || s.n != int64(whole.Len()) {
		t.Errorf("the file has %d of %d bytes, counted %d, %v", len(got), whole.Len(), s.n, err)
	}
	if !bytes.Equal(s.kept, whole.Bytes()[:DefaultKeptOutputBytes]) {
		t.Errorf("kept %d bytes", len(s.kept))
	}
}

// One attempt's output is dropped while another's first makes the folder, and
// the program may go to another folder meanwhile.
func TestResultsDirStaysWhereItWas(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := newResultsDir("p", "results", "", Limits{})
	home, err := filepath.Abs("results")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var both sync.WaitGroup
	both.Go(func() { dir.drop("t1-a1") })
	both.Go(func() {
		if got, err := dir.attempt("t2-a1"); got != filepath.Join(home, "t2-a1") || err != nil {
			t.Errorf("the attempt's folder is %s, %v", got, err)
		}
	})
	both.Wait()
}

func TestTail(t *testing.T) {
	var l tail
	for i := range 5000 {
		fmt.Fprintf(&l, "line %d\n", i)
	}
	lines := strings.Split(l.String(), "\n")
	if len(lines) != tailLines || lines[len(lines)-1] != "line 4999" || lines[0] != "line 4980" {
		t.Errorf("got %q", lines)
	}
}

func TestSecretsAndPricesPrint(t *testing.T) {
	s := struct {
		Key   Secret
		Price Price
		Free  Price
	}{Key: "sk-123"}
	s.Price, s.Free = USD(1.5), USD(0)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, s.Key) + fmt.Sprintf(verb, s); strings.Contains(got, "sk-123") || strings.Contains(got, "736b") {
			t.Errorf("%s printed %s", verb, got)
		}
	}
	if got := fmt.Sprint(s.Price, " ", s.Free, " ", Price{}, " ", USD(0.0125)); got != "$1.50 $0.00 unknown $0.0125" {
		t.Errorf("prices print as %s", got)
	}
}
