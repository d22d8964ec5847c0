package observe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
)

// oldSuffix ends the name of the file that was there before.
const oldSuffix = ".old"

// firstEntry is how the file of a recorder begins.
var firstEntry = regexp.MustCompile(`^\{"seq":[0-9]{1,19},"(event|line)":\{`)

// makeRoom gives the file of an earlier recorder its other name. It refuses to replace what no recorder has written.
func makeRoom(path string) error {
	for _, name := range []string{path, path + oldSuffix} {
		if err := isRecorders(name); err != nil {
			return fmt.Errorf("%s is there, and %w: move it elsewhere", name, err)
		}
	}
	if err := os.Rename(path, path+oldSuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isRecorders returns why a file is not one that a recorder has written, or nil, also if there is none. An empty one is: its
// recorder was killed, or has recorded nothing.
func isRecorders(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("is a link, a folder or a device")
	case info.Size() == 0:
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	begin, err := io.ReadAll(io.LimitReader(f, 64))
	if err == nil && !firstEntry.Match(begin) {
		err = errors.New("no recorder has written it")
	}
	return err
}
