package report

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/credential"
	"github.com/gputrain/gputrain/observe"
)

// WriteHTML writes a report as one HTML file, which needs no other file, no script and no network. The zero Run gives a report
// that says that nothing was recorded. The error names the path.
//
// A report is made to be sent to others, so what is left of credentials is replaced by "[redacted]", in all formats: the values of
// this program's environment variables that are credentials by their names, and the passwords in addresses that others have, also
// encoded; private keys; tokens that begin as those of known services do; and whatever stands where a credential is written: after a
// password's name, in a header, in an address.
func WriteHTML(path string, run observe.Run) error {
	return writeText(path, func(w io.Writer) error { return writeHTML(w, newDocument(run)) })
}

// WriteMarkdown writes the tables of the report as Markdown. The zero Run gives a report that says that nothing was recorded.
// The error names the path.
func WriteMarkdown(path string, run observe.Run) error {
	return writeText(path, func(w io.Writer) error { return writeMarkdown(w, newDocument(run)) })
}

// WriteJSON writes all of a Run as one JSON object, of "version" 1. Its names stay, and names may be added. Times are in RFC
// 3339 and UTC, and left out if they are zero; durations are in seconds; a number that is not known is null. The error names the
// path.
func WriteJSON(path string, run observe.Run) error {
	return writeText(path, func(w io.Writer) error { return writeRun(w, run, allLines) })
}

// writeText is writeFile for a text, from which it removes credentials.
func writeText(path string, write func(io.Writer) error) error {
	return writeFile(path, func(w io.Writer) error {
		clean := credential.NewWriter(w, credential.Known(os.Environ()))
		return errors.Join(write(clean), clean.Close())
	})
}

// writeFile writes a file beside its path, and renames it once it is complete. Its mode is 0600.
func writeFile(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fileError(path, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<16)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// fileError describes why a file was not written. An earlier file of its name is as it was.
func fileError(path string, err error) error {
	if e, ok := err.(*gputrain.Error); ok {
		return e
	}
	return &gputrain.Error{Op: "write " + path, Err: err, Hint: "name a file in a folder that is there and that this user can write to, on a disk with free space"}
}
