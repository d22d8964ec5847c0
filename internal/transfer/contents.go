package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Content is a file, a folder or a link of a node.
type Content struct {
	Name   string      // relative to the folder that was asked for, with slashes
	Mode   fs.FileMode // the kind, and permission bits
	Size   int64       // of a file
	Time   int64       // when a file or folder was written last, in Unix seconds
	Target string      // of a link
}

// A Mirror accesses files of a node by their names, for what must be the same on both sides.
type Mirror struct{ *Remote }

// listContents prints a record for each file, folder and link, in the form of statFormat. Links to files are not followed.
const listContents = `cd "$d" 2>/dev/null || exit ` + missing + `
[ -e "./$n" ] || [ -L "./$n" ] || exit ` + missing + `
if stat -c %Y . >/dev/null 2>&1; then
	find "./$n" -exec stat -c '//` + statFormat + ` %n' {} +
else
	find "./$n" -exec stat -f '//%Xp %z %m %N' {} +
fi
`

// listTargets prints each link and its target, both followed by NUL.
const listTargets = `cd "$d" || exit ` + missing + `
find "./$n" -type l -exec sh -c 'for f; do printf "%s\000%s\000" "$f" "$(readlink "$f")"; done' sh {} +
`

// Contents lists a file or folder of a node by its name in dir, which is absolute or relative to the Remote's Dir: first
// itself, and each folder before its content, by name. Links are not followed, and those that lead out of it are left out,
// as are pipes, sockets and devices. If it does not exist, the error wraps fs.ErrNotExist.
func (m Mirror) Contents(ctx context.Context, dir, name string, most Limits) ([]Content, error) {
	r := m.Remote
	at, err := r.at(dir)
	if err != nil {
		return nil, err
	}
	if _, err := nodeName(name); err != nil {
		return nil, err
	}
	about := path.Join(at, name)
	var found []Content
	err = retry(ctx, func() error {
		return r.stream(ctx, script(listContents, "d="+at, "n="+name), about, nil, func(out io.Reader) (err error) {
			found, err = readContents(out, most)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b Content) int { return strings.Compare(a.Name, b.Name) })
	if !slices.ContainsFunc(found, func(c Content) bool { return c.Mode.Type() == fs.ModeSymlink }) {
		return found, nil
	}
	var targets map[string]string
	err = retry(ctx, func() error {
		return r.stream(ctx, script(listTargets, "d="+at, "n="+name), about, nil, func(out io.Reader) (err error) {
			targets, err = readTargets(out, len(found))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Target = targets[found[i].Name]
	}
	return slices.DeleteFunc(found, func(c Content) bool { return !c.staysIn(name) }), nil
}

// staysIn reports whether c is no link, or one that leads to a place in the folder.
func (c *Content) staysIn(folder string) bool {
	if c.Mode.Type() != fs.ModeSymlink {
		return true
	}
	below, ok := strings.CutPrefix(c.Name, folder+"/")
	return ok && staysBelow(below, c.Target)
}

// readContents reads the answer to listContents.
func readContents(out io.Reader, most Limits) (found []Content, err error) {
	records := newRecords(out)
	for records.Scan() {
		record := strings.TrimSuffix(records.Text(), "\n")
		if record == "" {
			continue // before the first one
		}
		said, name, _ := strings.Cut(record, " ./")
		if _, err := nodeName(name); err != nil {
			return nil, err
		}
		if int64(len(found)) >= most.files() {
			return nil, &LimitError{Files: true, Most: most.Files}
		}
		if c, ok := parseContent(said); ok {
			c.Name = name
			found = append(found, c)
		}
	}
	return found, errRecord(records.Err())
}

// parseContent parses what stat says of a file, a folder or a link. It reports false for anything else.
func parseContent(text string) (Content, bool) {
	var raw uint64
	var c Content
	if _, err := fmt.Sscanf(text, "%x %d %d", &raw, &c.Size, &c.Time); err != nil || c.Size < 0 {
		return c, false
	}
	for kind, bits := range rawKind {
		if int64(raw)&^0o7777 == bits {
			if c.Mode = kind | fs.FileMode(raw&0o777); kind != 0 {
				c.Size = 0
			}
			return c, true
		}
	}
	return c, false
}

// readTargets reads the answer to listTargets.
func readTargets(out io.Reader, most int) (map[string]string, error) {
	targets := map[string]string{}
	fields := bufio.NewScanner(out)
	fields.Buffer(nil, recordBytes)
	fields.Split(splitNUL)
	for fields.Scan() {
		name := strings.TrimPrefix(fields.Text(), "./")
		if !fields.Scan() || len(targets) > most {
			return nil, errors.New("the node sent an invalid list of links")
		}
		targets[name] = fields.Text()
	}
	return targets, errRecord(fields.Err())
}

// splitNUL splits after each NUL.
func splitNUL(data []byte, atEOF bool) (advance int, field []byte, err error) {
	if i := slices.Index(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// FetchFiles is Fetch for files by their names, of which Contents may be the source. Those that are no regular files are
// not brought. FetchOptions.Since does not count.
func (m Mirror) FetchFiles(ctx context.Context, files []Content, localDir string, o FetchOptions) ([]File, error) {
	r, _, err := newSearch(m.Remote, nil, FetchOptions{Dir: o.Dir})
	if err != nil {
		return nil, err
	}
	var names []string
	var size int64
	for _, f := range files {
		if !f.Mode.IsRegular() {
			continue
		}
		if _, err := nodeName(f.Name); err != nil {
			return nil, err
		}
		names = append(names, f.Name)
		size += f.Size
	}
	if len(names) == 0 {
		return nil, nil
	}
	return fetchAll(ctx, r, names, size, localDir, o)
}

// Sums returns the SHA-256 of files of dir by their names, in hex, or nil if the node has no program for it.
func (m Mirror) Sums(ctx context.Context, dir string, names []string) (sums []string, err error) {
	r, _, err := newSearch(m.Remote, nil, FetchOptions{Dir: dir})
	if err != nil || r.Tools.SHA256 == "" {
		return nil, err
	}
	for batch := range batches(names) {
		var some []string
		err := retry(ctx, func() error {
			command := `cd "$d" || exit ` + missing + "\nset --" + words(batch) + "\n" + r.sumAll(batch)
			return r.stream(ctx, script(command, "d="+r.Dir), r.Dir, nil, func(out io.Reader) (err error) {
				some, err = readSums(out, len(batch), false)
				return err
			})
		})
		if err != nil {
			return nil, err
		}
		sums = append(sums, some...)
	}
	return sums, nil
}

// Script runs text by the node's sh and returns what it prints, at most a number of bytes of it. Each of vars, "name=value",
// is set first. It runs again if the connection is lost, so it must be safe to repeat. Errors are about the path about.
func (m Mirror) Script(ctx context.Context, about, text string, most int64, vars ...string) (string, error) {
	var said []byte
	err := retry(ctx, func() error {
		return m.stream(ctx, script(text, vars...), about, nil, func(out io.Reader) (err error) {
			said, err = io.ReadAll(io.LimitReader(out, most+1))
			if int64(len(said)) > most {
				err = fmt.Errorf("the node answers with more than %d bytes", most)
			}
			return err
		})
	})
	return string(said), err
}
