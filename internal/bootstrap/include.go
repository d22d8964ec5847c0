package bootstrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gputrain/gputrain/internal/transfer"
)

// entries returns the destination of each path of Include: below the working directory under its path below the current
// directory, or else under its last element.
func (img Image) entries() ([]transfer.Entry, error) {
	if len(img.Include) == 0 {
		return nil, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("paths of Include: %w", err)
	}
	var (
		faults  []error
		entries []transfer.Entry
		taken   = make(map[string]string)
	)
	for _, local := range img.Include {
		remote, err := arrival(here, local)
		switch other, twice := taken[remote]; {
		case err != nil:
			faults = append(faults, fmt.Errorf("path %q of Include: %w", local, err))
			continue
		case twice:
			faults = append(faults, fmt.Errorf("paths %q and %q of Include would both arrive as %s", other, local, remote))
			continue
		}
		taken[remote] = local
		entry := transfer.Entry{Local: local, Remote: remote, Exclude: img.Exclude}
		if img.FollowOutsideLinks {
			entry.Links = transfer.FollowOutside
		}
		entries = append(entries, entry)
	}
	return entries, errors.Join(faults...)
}

// arrival returns the path on the node of a local path, with slashes and
// relative to the working directory.
func arrival(here, local string) (string, error) {
	if local == "" {
		return "", errors.New("it is empty")
	}
	if _, err := os.Stat(local); err != nil {
		return "", fmt.Errorf("%w (the current directory is %s)", err, here)
	}
	whole := local
	if !filepath.IsAbs(whole) {
		whole = filepath.Join(here, local)
	}
	rel, err := filepath.Rel(here, whole)
	if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return filepath.ToSlash(rel), nil
	}
	base := filepath.Base(whole)
	if base == string(filepath.Separator) || base == "." {
		return "", errors.New("it has no last element to arrive under")
	}
	return base, nil
}
