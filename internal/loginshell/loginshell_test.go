package loginshell

import (
	"errors"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// shells are login shells, and the packages that have them.
var shells = []struct{ name, pkg string }{
	{"sh", ""}, {"bash", "bash"}, {"dash", "dash"}, {"zsh", "zsh"}, {"tcsh", "tcsh"}, {"bsd-csh", "csh"}, {"fish", "fish"},
}

// texts are commands that print something which shows whether a shell changed them.
func texts() []string {
	odd := "a'b\"c\\d!e$HOME`f`\t*?[x]{y,z}~#%^&|;<>()\u00e9\u4e16\xff\x01\r\x7f \\n \\0101 !! !$ ''\\'' end"
	return []string{
		"printf %s " + quoted(odd),
		"printf %s " + quoted("one\ntwo\n\n\nthree\\\n!\n"),
		"cat <<'E'\n" + strings.ReplaceAll(odd, "\n", "") + "\nE",
		"printf '%s,' \"$#\" \"$0\" ${gt_a-unset} ${gt_c-unset} ${gt_n-unset} ${gt_m-unset} \"$IFS\"",
		"case $- in *e*|*u*|*x*|*f*|*C*|*a*) echo \"$-\";; esac; false; echo \"$none\"; cd /; pwd",
		"printf %s " + quoted(strings.Repeat("long' !", 4000)), // 28 kB
		"exec sh -c 'echo inner; exit 3'",
		"",
		"\n# a comment\n",
	}
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// TestCommand has each login shell run each text, and compares with sh itself.
func TestCommand(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell.name, func(t *testing.T) {
			path := opensshtest.Program(t, shell.name, shell.pkg)
			for _, text := range texts() {
				want := exec.Command("/bin/sh", "-c", text, "gputrain")
				get := func(cmd *exec.Cmd) (string, int) {
					cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "LC_ALL=C.UTF-8"}, t.TempDir()
					out, err := cmd.Output()
					if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
						t.Fatal(err)
					} else if ok && exit.ExitCode() < 0 {
						t.Fatal(exit)
					}
					return string(out), cmd.ProcessState.ExitCode()
				}
				wanted, code := get(want)
				command, mark := Command(text)
				out, exit := get(exec.Command(path, "-c", command))
				if got, err := io.ReadAll(Stdout(strings.NewReader(out), mark)); err != nil || string(got) != wanted || exit != code {
					t.Errorf("%.80q: %d, %.300q, %v; want %d, %.300q", text, exit, got, err, code, wanted)
				}
			}
		})
	}
}

// TestWordsOfCommandAreShort checks csh's limit, and that of an argument of Linux for a text that was near it before.
func TestWordsOfCommandAreShort(t *testing.T) {
	for _, text := range []string{strings.Repeat("\xff\\!'", 1000), strings.Repeat("'", 5000), strings.Repeat("a\n", 5000)} {
		command, _ := Command(text)
		for i, word := range strings.Split(command[len(head):], " ") {
			if len(word) >= 1024 {
				t.Errorf("word %d of %.10q has %d bytes", i, text, len(word))
			}
		}
		if len(loader) >= 1024 {
			t.Errorf("the loader has %d bytes", len(loader))
		}
	}
}

func TestParse(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := texts()
	for range 200 {
		b := make([]byte, random.IntN(600))
		for i := range b {
			b[i] = byte(1 + random.IntN(255))
		}
		all = append(all, string(b), strings.Map(func(r rune) rune { return rune("a '\\!\"\n\t"[r%8]) }, string(b)))
	}
	for _, text := range all {
		command, mark := Command(text)
		if got, m, err := Parse(command); err != nil || got != text || m != mark {
			t.Fatalf("%q became %q, %q, %v", text, got, m, err)
		}
		Parse(command[:random.IntN(len(command))]) // does not panic
	}
	for _, other := range []string{"", "exec sh -c x", head, head + "M", head + "M 'n", head + `M N\\0`, head + `M N\\0999`, head + "M  n"} {
		if text, _, err := Parse(other); err == nil {
			t.Errorf("%q was read as %q", other, text)
		}
	}
}

func TestOutput(t *testing.T) {
	_, mark := Command("x")
	line := Line(mark)
	long := strings.Repeat("welcome\n", most/16)
	for _, tt := range []struct {
		name, in, want, said string
		err                  error
	}{
		{name: "quiet", in: line + "out", want: "out"},
		{name: "nothing", in: line},
		{name: "a line", in: "Welcome!\n" + line + "a\nb\n", want: "a\nb\n"},
		{name: "no newline", in: "Welcome!" + line + "a", want: "a"},
		{name: "bytes", in: "\x00\xff\x1b[31m\r\n" + line + "a", want: "a"},
		{name: "a terminal", in: "Welcome\r\n" + sign + mark + "\r\na\r\n", want: "a\r\n"},
		{name: "half a mark", in: sign + mark[:5] + "\n" + line[:9] + line + line, want: line},
		{name: "another mark", in: sign + "ABCDEF\n" + line + "a", want: "a"},
		{name: "much", in: long + line + "a", want: "a"},
		{name: "ends", in: "no login today\n", said: "no login today"},
		{name: "ends at once"},
		{name: "endless", in: long + long + long, said: strings.Repeat("welcome\n", kept/8)[:kept-1], err: ErrNoise},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for how, reader := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "errors": iotest.DataErrReader, "halves": iotest.HalfReader,
			} {
				if how == "bytes" && len(tt.in) > most/2 {
					continue
				}
				ended := !strings.Contains(tt.in, line) && tt.name != "a terminal"
				out, errs := Stdout(reader(strings.NewReader(tt.in)), mark), Stderr(reader(strings.NewReader(tt.in)), mark)
				got, err := io.ReadAll(out)
				if string(got) != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("%s: stdout %q, %v", how, got, err)
				}
				said, missed := out.Missed()
				if missed != ended || said != strings.TrimSpace(tt.said) && tt.err == nil {
					t.Errorf("%s: missed %v, said %.100q", how, missed, said)
				}
				want := tt.want
				if ended && tt.err == nil {
					want = tt.said
				}
				if got, err := io.ReadAll(errs); tt.err == nil && string(got) != want || !errors.Is(err, tt.err) || len(got) > kept {
					t.Errorf("%s: stderr %.100q, %v", how, got, err)
				}
			}
		})
	}
}
