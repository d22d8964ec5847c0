package bootstrap

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxRequirements bounds the files of one Image.Requirements together. A large lock file has a few MiB.
const maxRequirements = 32 << 20

// otherKind matches files that pip or uv would read as something else than a requirements.txt.
var otherKind = regexp.MustCompile(`(?i)\.(toml|lock|ya?ml|py|cfg|json)$`)

// requirements are the files that Image.Requirements leads to, as they are sent to a node.
type requirements struct {
	kind  requirementsKind
	files []requirementsFile // the first is what Image.Requirements names
	// hashed reports that a file has hashes of packages: then pip and uv accept nothing without one.
	hashed bool
	// options are those of the files that uv takes as arguments alone.
	options []string
}

// requirementsKind is empty if there are no requirements.
type requirementsKind string

const (
	requirementsTxt requirementsKind = "requirements"
	lockedProject   requirementsKind = "project"
)

// A requirementsFile is one file, by the name that it has on the node.
type requirementsFile struct {
	name    string
	content []byte
}

// readRequirements reads what Image.Requirements names, and all files that it includes. The error has all mistakes.
func readRequirements(name string) (requirements, error) {
	switch base := filepath.Base(name); {
	case name == "":
		return requirements{}, nil
	case base == "uv.lock":
		return requirements{}, fmt.Errorf("%s is the lock; name the pyproject.toml beside it", name)
	case base == "pyproject.toml":
		return readProject(name)
	case otherKind.MatchString(base):
		return requirements{}, fmt.Errorf("%s is neither a requirements.txt nor a pyproject.toml with uv.lock beside it", name)
	}
	r := reader{names: map[string]string{}}
	r.read(name)
	return requirements{kind: requirementsTxt, files: r.files, hashed: r.hashed, options: r.options}, errors.Join(r.faults...)
}

// parts are what the requirements add to a hash.
func (r requirements) parts() string {
	parts := []string{string(r.kind)}
	for _, f := range r.files {
		parts = append(parts, f.name, string(f.content))
	}
	return list(parts)
}

// script returns shell text that writes the files into the current directory, or nil if there are none. Nothing on a
// node is needed for it but cat.
func (r requirements) script() io.Reader {
	if r.kind == "" {
		return nil
	}
	var b bytes.Buffer
	for _, f := range r.files {
		sum := sha256.Sum256(f.content)
		end := "END_" + hex.EncodeToString(sum[:])
		fmt.Fprintf(&b, "cat >./%s <<'%s'\n%s", f.name, end, f.content)
		if len(f.content) > 0 && !bytes.HasSuffix(f.content, []byte("\n")) {
			b.WriteByte('\n')
		}
		b.WriteString(end + "\n")
	}
	return &b
}

// readText reads a file that has to be text in UTF-8, with the line ends of Unix.
func readText(name string) ([]byte, error) {
	content, err := readBytes(name)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		return nil, fmt.Errorf("%s is not text in UTF-8", name)
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	return bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")), nil
}

func readBytes(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", name)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxRequirements+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxRequirements:
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxRequirements>>20)
	}
	return content, nil
}

// A reader follows a requirements.txt through the files that it includes. Each gets a name that is unique on the node,
// and lines that include one get that name: the node has all in one folder.
type reader struct {
	files   []requirementsFile
	names   map[string]string // by absolute path
	bytes   int
	hashed  bool
	options []string
	faults  []error
}

func (r *reader) fail(err error) { r.faults = append(r.faults, err) }

// read reads a file and what it includes, and returns the file's name on the node.
func (r *reader) read(local string) string {
	whole, err := filepath.Abs(local)
	if err != nil {
		r.fail(err)
		return ""
	}
	if name, ok := r.names[whole]; ok {
		return name
	}
	name := "requirements.txt"
	if len(r.names) > 0 {
		name = strconv.Itoa(len(r.names)) + "-" + plainName(filepath.Base(whole))
	}
	r.names[whole] = name
	content, err := readBytes(local)
	if err == nil {
		content, err = decode(local, content)
	}
	if err == nil {
		if r.bytes += len(content); r.bytes > maxRequirements {
			err = fmt.Errorf("%s and the files read before it are larger than %d MiB together", local, maxRequirements>>20)
		}
	}
	if err != nil {
		r.fail(err)
		return name
	}
	at := len(r.files)
	r.files = append(r.files, requirementsFile{name: name})
	r.files[at].content = r.rewrite(local, content)
	return name
}

// rewrite returns a file's content with the names that included files have on the node. The number of lines stays, since
// pip and uv report it.
func (r *reader) rewrite(local string, content []byte) []byte {
	var out bytes.Buffer
	lines := strings.SplitAfter(string(content), "\n")
	for i := 0; i < len(lines); {
		logical, n := join(lines[i:])
		number := i + 1
		physical := strings.Join(lines[i:i+n], "")
		include, err := r.check(local, logical)
		if err == nil {
			err = checkReferences(physical) // in a comment, too
		}
		if err == nil && logical != "" && include == "" {
			var whole bool
			if whole, err = checkForm(logical); whole { // each further line would be the same mistake
				r.fail(fmt.Errorf("%s:%d: %w", local, number, err))
				break
			}
		}
		switch {
		case err != nil:
			r.fail(fmt.Errorf("%s:%d: %w", local, number, err))
		case include != "":
			out.WriteString(include + strings.Repeat("\n", n))
		default:
			out.WriteString(physical)
		}
		i += n
	}
	return out.Bytes()
}

var comment = regexp.MustCompile(`(^|[ \t]+)#.*$`)

// join returns the first logical line of lines without its comment, and how many lines it takes: as for pip, a backslash
// at the end continues a line, unless that is a comment alone.
func join(lines []string) (logical string, n int) {
	for n < len(lines) {
		line := strings.TrimSuffix(lines[n], "\n")
		n++
		isComment := strings.HasPrefix(strings.TrimLeft(line, " \t"), "#")
		if cut, continues := strings.CutSuffix(line, `\`); continues && !isComment {
			logical += cut
			continue
		}
		logical += line
		break
	}
	return strings.TrimSpace(comment.ReplaceAllString(logical, "")), n
}

var (
	// includes matches the options that include a file, with the file.
	includes = regexp.MustCompile(`^(-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+|$)?(.*)$`)
	// pathOptions matches the options of a line that name a place, with the place.
	pathOptions = regexp.MustCompile(`^(-e|--editable|-f|--find-links)(?:\s*=\s*|\s+)(.*)$`)
	// direct matches the place of a requirement like "name @ place".
	direct      = regexp.MustCompile(`^[A-Za-z0-9._-]+(?:\s*\[[^\]]*\])?\s*@\s*(.*)$`)
	trustedHost = regexp.MustCompile(`^--trusted-host(?:\s*=\s*|\s+)([A-Za-z0-9.:_\[\]-]+)$`)
	// reference matches a variable as pip and uv replace it.
	reference = regexp.MustCompile(`^\$\{[A-Z0-9_]+\}$`)
	archive   = regexp.MustCompile(`(?i)\.(whl|zip|tar\.gz|tgz|tar\.bz2|tar\.xz)$`)
)

// check checks one logical line of a requirements.txt. If it includes a local file, check reads that, and returns the
// line that includes it on the node.
func (r *reader) check(local, line string) (include string, err error) {
	if line == "" {
		return "", nil
	}
	if m := includes.FindStringSubmatch(line); m != nil {
		target := strings.Trim(m[2], `"'`)
		switch {
		case target == "" || strings.HasPrefix(target, "-") || strings.ContainsAny(target, " \t"):
			return "", fmt.Errorf("%s takes the name of one file, without spaces", m[1])
		case strings.Contains(target, "${"):
			return "", errors.New("the name of the file has a variable, which is known on the node alone")
		case strings.HasPrefix(target, "http://"), strings.HasPrefix(target, "https://"):
			return "", nil // the node fetches it, and the key does not know its content
		case strings.Contains(target, "://"):
			return "", errors.New("the file is named by an address; name it by its path")
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(local), filepath.FromSlash(target))
		}
		option := "-r "
		if strings.Contains(m[1], "c") {
			option = "-c "
		}
		return option + r.read(target), nil
	}
	if strings.Contains(line, "--hash") || strings.HasPrefix(line, "--require-hashes") {
		r.hashed = true
	}
	if line == "--pre" {
		r.options = append(r.options, line)
	} else if m := trustedHost.FindStringSubmatch(line); m != nil {
		r.options = append(r.options, "--trusted-host", m[1])
	}
	return "", checkPlace(line, place(line))
}

// place returns what a line may name by its path: the place of a package or of a folder of packages, or "".
func place(line string) string {
	if m := pathOptions.FindStringSubmatch(line); m != nil {
		return strings.Trim(m[2], `"'`)
	}
	if strings.HasPrefix(line, "-") {
		return ""
	}
	line, _, _ = strings.Cut(line, " --") // per-requirement options
	line, _, _ = strings.Cut(line, ";")   // markers
	if m := direct.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
		return m[1]
	}
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "file:") || strings.ContainsAny(line, `/\`) || archive.MatchString(line) {
		return line // as pip, which also looks for a folder of this name
	}
	return ""
}

// checkPlace refuses a path that is relative to this computer's folders: those are not on the node. An absolute path is
// one of the node, unless it looks like one of the computer that has built the package.
func checkPlace(line, place string) error {
	place, _, _ = strings.Cut(strings.TrimSpace(place), " ")
	at := strings.TrimPrefix(strings.TrimPrefix(place, "file://"), "file:")
	if strings.HasPrefix(place, "file:") || path.IsAbs(place) {
		if err := checkBuilt(line, at); err != nil {
			return err
		}
	}
	switch {
	case place == "", path.IsAbs(at), strings.HasPrefix(place, "${"):
		return nil
	case at == place && (strings.Contains(place, "://") || strings.HasPrefix(place, "git@")):
		return nil
	}
	return fmt.Errorf("%q is a path of this computer, which nodes do not have; copy it with Image.Include and install it in a Setup command", place)
}

// checkReferences refuses a password in an address, unless it is a reference to a variable: the file will be on the
// node's disk.
func checkReferences(line string) error {
	for _, m := range userinfo.FindAllStringSubmatch(line, -1) {
		scheme, user := m[1], m[2]
		name, password, both := strings.Cut(user, ":")
		switch {
		case both && reference.MatchString(password), !both && reference.MatchString(name):
		case !both && strings.HasSuffix(scheme, "ssh"): // it names an account
		default:
			return errors.New("the address holds a user or a password, which would stand on the node's disk; " +
				"write ${NAME} in its place, and give the value in Spec.Secrets")
		}
	}
	return nil
}

// plainName returns a file's name in letters that mean nothing to a shell.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return r
		}
		return '_'
	}, name)
}

// holdsPassword reports whether a line of a TOML file has an address with a user or a password.
func holdsPassword(line string) bool {
	for _, m := range userinfo.FindAllStringSubmatch(line, -1) {
		scheme, user := m[1], m[2]
		isAccount := strings.HasSuffix(scheme, "ssh") && !strings.Contains(user, ":")
		if !isAccount && !strings.ContainsAny(user, `"'`) { // a quote ends the address
			return true
		}
	}
	return false
}

// sourceOf matches the source of a package in uv.lock, by its kind.
var sourceOf = regexp.MustCompile(`(?m)^source = \{ (editable|virtual|directory|path|registry) = "((?:[^"\\]|\\.)*)"`)

// readProject reads a pyproject.toml, and the files beside it that uv reads with it.
func readProject(name string) (requirements, error) {
	var (
		r      = requirements{kind: lockedProject}
		faults []error
		bytes  int
		dir    = filepath.Dir(name)
	)
	for _, f := range []struct {
		name     string
		optional bool
	}{{"pyproject.toml", false}, {"uv.lock", false}, {"uv.toml", true}, {".python-version", true}} {
		local := filepath.Join(dir, f.name)
		content, err := readText(local)
		switch {
		case errors.Is(err, fs.ErrNotExist) && f.optional:
			continue
		case errors.Is(err, fs.ErrNotExist) && f.name == "uv.lock":
			faults = append(faults, fmt.Errorf("%s has no uv.lock beside it, so its packages have no versions; run uv lock there, or name a requirements.txt", name))
			continue
		case err != nil:
			faults = append(faults, err)
			continue
		}
		if bytes += len(content); bytes > maxRequirements {
			return r, fmt.Errorf("%s and its lock are larger than %d MiB together", name, maxRequirements>>20)
		}
		for i, line := range strings.Split(string(content), "\n") {
			if holdsPassword(line) {
				faults = append(faults, fmt.Errorf("%s:%d: the address holds a user or a password, which would stand on the node's disk; "+
					"leave it out, and give UV_INDEX_<NAME>_USERNAME and UV_INDEX_<NAME>_PASSWORD in Spec.Secrets, with the index's name in capitals", local, i+1))
			}
		}
		if f.name == "uv.lock" {
			faults = append(faults, checkSources(local, string(content))...)
		}
		r.files = append(r.files, requirementsFile{f.name, content})
	}
	return r, errors.Join(faults...)
}

// checkSources refuses a lock with packages of this computer. The project itself is one, and is not installed.
func checkSources(local, lock string) (faults []error) {
	for _, m := range sourceOf.FindAllStringSubmatch(lock, -1) {
		kind, where := m[1], m[2]
		if where == "." || kind == "registry" && (strings.Contains(where, "://") || path.IsAbs(where)) {
			continue
		}
		faults = append(faults, fmt.Errorf("%s: it takes packages from %q, a path of this computer, which nodes do not have; "+
			"leave them out of the lock, copy them with Image.Include and install them in a Setup command", local, where))
	}
	return faults
}
