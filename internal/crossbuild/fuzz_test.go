package crossbuild

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Any content of a file is identified as a program of a platform, or is an error.
func FuzzIdentify(f *testing.F) {
	self, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:4096]) // its headers; those of other systems are in testdata
	for _, s := range []string{"", "#!/bin/sh\n", "MZ", "\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe\x00\x00\x00\x01"} {
		f.Add([]byte(s))
	}
	f.Add(interpreted(1 << 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		format, err := Identify(name)
		if err == nil && (format.OS == "" || format.Arch == "") {
			t.Errorf("it is %+v", format)
		}
		if len(format.Interpreter) > maxInterpreter {
			t.Errorf("an interpreter of %d bytes", len(format.Interpreter))
		}
	})
}

// interpreted returns the header of a program that names an interpreter of this size.
func interpreted(size uint64) []byte {
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01" + string(make([]byte, 9)))
	le := func(n int, v uint64) {
		for range n {
			b.WriteByte(byte(v))
			v >>= 8
		}
	}
	le(2, 2)    // an executable
	le(2, 62)   // x86-64
	le(4, 1)    // version
	le(8, 0)    // entry
	le(8, 64)   // program headers
	le(8, 0)    // section headers
	le(4, 0)    // flags
	le(2, 64)   // of this header
	le(2, 56)   // of a program header
	le(2, 1)    // program headers
	le(2, 64)   // of a section header
	le(2, 0)    // sections
	le(2, 0)    // names
	le(4, 3)    // PT_INTERP
	le(4, 4)    // readable
	le(8, 120)  // address
	le(8, 0)    // address
	le(8, 0)    // address
	le(8, size) // in the file
	le(8, size) // in memory
	le(8, 1)    // alignment
	return b.Bytes()
}

// A file that names megabytes as its interpreter is not a program.
func TestIdentifyBoundsTheInterpreter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	path := "/lib64/ld-linux-x86-64.so.2\x00"
	if err := os.WriteFile(name, append(interpreted(uint64(len(path))), path...), 0o600); err != nil {
		t.Fatal(err)
	}
	if format, err := Identify(name); err != nil || format.Interpreter != path[:len(path)-1] {
		t.Errorf("got %+v, %v", format, err)
	}
	if err := os.WriteFile(name, append(interpreted(8<<20), bytes.Repeat([]byte("x"), 8<<20)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if format, err := Identify(name); err == nil {
		t.Errorf("Identify accepts an interpreter of %d bytes", len(format.Interpreter))
	}
}

// The flags that linkerFlags keeps can be joined and split again without a change.
func FuzzLinkerFlags(f *testing.F) {
	for _, s := range []string{"-X main.v=1", `-X "main.v=a b" -X 'c.d=it "is"'`, "all=-X=a.b=c", `-X 'a`, "-X", `"" ''`, "-extld=/bin/sh -X a=b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, recorded string) {
		kept := linkerFlags(recorded)
		for i, w := range kept {
			if i%2 == 0 && w != "-X" {
				t.Fatalf("linkerFlags(%q) is %q", recorded, kept)
			}
		}
		joined, err := joinFlags(kept)
		if err != nil {
			return
		}
		if again := fields(joined); !slices.Equal(again, kept) {
			t.Errorf("%q becomes %q, which is %q and not %q", recorded, joined, again, kept)
		}
	})
}
