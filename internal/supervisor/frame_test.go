package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFrames(t *testing.T) {
	const in = "Last login: today\nno newline" + hello + "\nF home /a b\nH 1\nS t-1\nO t-1 o 65536 5\nab\ncdX t-1 e 0\n 00 ff\n 0a\n.\nX t-1 o 7\n.\n" +
		"D t-1 0 - exit 10 0 1 1\nO t-1 e 3 0\nP 1\n"
	want := `F [home /a b]; H [1]; S [t-1]; O [t-1 o 65536 5] 0 65536 "ab\ncd" true; X [t-1 e 0] 1 0 "\x00\xff\n" true; X [t-1 o 7] 0 7 "" true; ` +
		`D [t-1 0 - exit 10 0 1 1]; O [t-1 e 3 0] 1 3 "" true; P [1]; `
	d := newDecoder(strings.NewReader(in))
	if err := d.greet(); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for {
		f, err := d.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%c %v", f.kind, f.words)
		if f.kind == 'O' || f.kind == 'X' {
			fmt.Fprintf(&got, " %d %d %q %v", f.stream, f.offset, f.data, f.last)
		}
		got.WriteString("; ")
	}
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
}

func TestHostileFrames(t *testing.T) {
	for _, in := range []string{
		"\n", "nonsense\n", "O\n", "O a o 0\n", "O a x 0 1\n", "O a o -1 1\n", "O a o 0 99999999999999999999\n", "O a o 0 5\nab",
		"X a o 0\n zz\n.\n", "X a o 0\n 000\n.\n", "X a o 0\n 0", "X a o\n", "D " + strings.Repeat("x", maxLine+1) + "\n",
	} {
		d := newDecoder(strings.NewReader(in))
		var err error
		for err == nil {
			_, err = d.next()
		}
		if err == io.EOF || !errors.Is(err, errFrame) && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
			if strings.HasPrefix(in, "O a o 0 5") && err == io.EOF {
				continue // cut in the middle of data
			}
			t.Errorf("%.40q: %v", in, err)
		}
	}
	if err := newDecoder(strings.NewReader(strings.Repeat("noise\n", maxNoise))).greet(); !errors.Is(err, errFrame) {
		t.Error(err)
	}
}

// FuzzFrames feeds arbitrary bytes to the decoder and to a task. They must not panic, nor return more of a stream than
// was announced.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("O t o 0 5\nabcdeX t e 0\n 00 ff\n.\nZ t e 2\nD t 0 - exit 1 0 1 1\n"))
	f.Add([]byte("D t 137 KILL oom - 1 0 0\nV t\nU t\nP 1\nA\n"))
	f.Add([]byte("O t o 1152921504606846976 1152921504606846976\nx"))
	f.Add([]byte("D t 0 - never 0 0 0 0\n"))
	f.Add([]byte("D t 0 - exit 12 0 2 2 a\\ b $'\\001\\n' \n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		d := newDecoder(bytes.NewReader(in))
		k := newTask("t")
		k.since = time.Now().Add(-time.Hour)
		k.allow(maxBudget)
		var data int
		for {
			fr, err := d.next()
			if err != nil {
				break
			}
			if len(fr.data) > maxChunk {
				t.Fatal("too much at once")
			}
			data += len(fr.data)
			switch fr.kind {
			case 'O', 'X':
				k.deliver(&fr)
			case 'D':
				data += len(fr.line) // a D frame contains short output
				k.done(fr.line)
			case 'Z':
				k.measured(fr.words)
			}
		}
		if x := k.exit; x != nil && (x.Elapsed < 0 || x.Elapsed > 2*time.Hour || len(x.Signal) > 16) {
			t.Fatalf("%+v", x)
		}
		if data > len(in) || len(k.inbox[stdout])+len(k.inbox[stderr]) > data {
			t.Fatalf("%d bytes of data from %d", data, len(in))
		}
	})
}

func TestFactsAdd(t *testing.T) {
	var f Facts
	for _, kv := range [][2]string{
		{"os", "Linux"}, {"arch", "aarch64"}, {"memory", "8000"}, {"limit", "max"}, {"limit", "4000"}, {"limit", "9000"}, {"cpus", "x"},
		{"df", "Filesystem 1024-blocks Used Available Capacity Mounted on"}, {"df", "odd name 100 40 60 40% /mnt/a b"}, {"root", "/r"}, {"tool", "head -c"}, {"visible", "0,GPU-aa"}, {"new", "?"},
	} {
		f.add(kv[0], kv[1])
	}
	if f.OS != "linux" || f.Arch != "arm64" || f.MemoryBytes != 4000 || f.CPUs != 0 || f.DiskFreeBytes != 60<<10 || f.WorkDir != "/r/work" || !f.Tools["head -c"] || !slices.Equal(f.Visible, []string{"0", "GPU-aa"}) {
		t.Errorf("%+v", f)
	}
}

// FuzzAnswers feeds arbitrary answers of a node to a program that starts or attaches.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("F os Linux\nF arch x86_64\nF root /r\nF lease 900\nF df a 1 2 3 4% /\nH 1 perl\nI t1-a1-s0 1 ABCDEFGHIJ-1\nI b 0 -\nJ\n"))
	f.Add([]byte("E version 9\n"))
	f.Add([]byte("F tool " + strings.Repeat("x", 1000) + "\nF memory -1\nF limit max\nF cpus 99999999999999999999\nH 1 sh\nI a 1 -\nI a 1 -\nJ\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		k := &control{frames: newDecoder(bytes.NewReader(in))}
		var facts Facts
		if k.opened(&facts) != nil {
			return
		}
		if facts.MemoryBytes < 0 || facts.DiskFreeBytes < 0 || facts.CPUs < 0 || facts.Lease < 0 || facts.Lease > 100*365*24*time.Hour {
			t.Fatalf("%+v", facts)
		}
		all, err := k.listed()
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, task := range all {
			if seen[task.id] || !idPattern.MatchString(task.id) || task.scratch != "" && !scratchPattern.MatchString(task.scratch) {
				t.Fatalf("%+v", all)
			}
			seen[task.id] = true
		}
	})
}
