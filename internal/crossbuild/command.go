package crossbuild

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
)

// Advice returns the command by which the user can build the program for a platform, as the file
// worker: "run GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -o worker …".
func (p *Program) Advice(to Platform) string {
	settings := fmt.Sprintf("GOOS=%s GOARCH=%s CGO_ENABLED=0", to.OS, to.Arch)
	command := "go build -o worker"
	if p.Test {
		command = "go test -c -o worker"
	}
	if p.released() && !p.Test {
		// go build accepts no version, and go install no -o.
		command = "go install"
	}
	if tags := setting(p.Info, "-tags"); tags != "" {
		command += " -tags=" + quoted(tags)
	}
	for _, target := range p.targets() {
		command += " " + quoted(target)
	}
	if p.released() && !p.Test {
		command += "@" + p.Info.Main.Version
	}
	where := ""
	switch {
	case p.byFiles(), p.released():
	case p.Info.Main.Path != "":
		where = " in the module " + p.Info.Main.Path
	}
	if runtime.GOOS == "windows" {
		return fmt.Sprintf("set %s and run %s%s", strings.ReplaceAll(settings, " ", ", "), command, where)
	}
	return fmt.Sprintf("run %s %s%s", settings, command, where)
}

// targets returns the program as arguments of the go command.
func (p *Program) targets() []string {
	if !p.byFiles() {
		return []string{p.packagePath()}
	}
	if len(p.Files) == 0 {
		return []string{"main.go"}
	}
	return p.Files
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,~-]+$`)

// quoted returns an argument as it is typed in a shell.
func quoted(arg string) string {
	switch {
	case plain.MatchString(arg):
		return arg
	case runtime.GOOS == "windows":
		return `"` + arg + `"`
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// linkerFlags returns the -X flags of the recorded -ldflags. The others may name files and linkers
// of this machine.
func linkerFlags(recorded string) []string {
	if pattern, flags, ok := strings.Cut(recorded, "="); ok && !strings.HasPrefix(recorded, "-") && !strings.ContainsAny(pattern, " \t") {
		recorded = flags // without the pattern of packages
	}
	var kept []string
	words := fields(recorded)
	for i := 0; i < len(words); i++ {
		name, value, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(words[i], "-"), "-"), "=")
		if name != "X" {
			continue
		}
		if !joined {
			if i++; i == len(words) {
				break
			}
			value = words[i]
		}
		kept = append(kept, "-X", value)
	}
	return kept
}

// fields splits flags as the go command does: at spaces that are not within quotes.
func fields(s string) []string {
	var words []string
	for s = strings.TrimLeft(s, " \t\n\r"); s != ""; s = strings.TrimLeft(s, " \t\n\r") {
		if q := s[0]; q == '"' || q == '\'' {
			end := strings.IndexByte(s[1:], q)
			if end < 0 {
				return append(words, s[1:])
			}
			words, s = append(words, s[1:1+end]), s[end+2:]
			continue
		}
		end := strings.IndexAny(s, " \t\n\r")
		if end < 0 {
			return append(words, s)
		}
		words, s = append(words, s[:end]), s[end:]
	}
	return words
}

// joinFlags is the reverse of fields.
func joinFlags(words []string) (string, error) {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch {
		case !strings.ContainsAny(w, " \t\n\r\"'") && w != "":
			b.WriteString(w)
		case !strings.Contains(w, `"`):
			b.WriteString(`"` + w + `"`)
		case !strings.Contains(w, "'"):
			b.WriteString("'" + w + "'")
		default:
			return "", fmt.Errorf("the linker flag %s has both kinds of quotes", w)
		}
	}
	return b.String(), nil
}
