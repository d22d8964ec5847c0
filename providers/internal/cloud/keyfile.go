package cloud

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// KeyFile returns the text of the first of a user's files that is there, without a byte order mark, or "". A path that is not
// absolute is below the user's home; an empty one is none.
func KeyFile(paths ...string) (string, error) {
	home, err := os.UserHomeDir()
	for _, path := range paths {
		switch {
		case path == "" || !filepath.IsAbs(path) && err != nil:
			continue
		case !filepath.IsAbs(path):
			path = filepath.Join(home, path)
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return strings.TrimPrefix(string(text), "\ufeff"), err
	}
	return "", nil
}

// ConfigHome returns a path in the user's folder of configurations, as the XDG base directories have it, or "" if no variable
// names one.
func ConfigHome(path string) string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, path)
}

// Setting returns the value of a name in lines of "name = value", in which values may have quotes, and comments begin with #. In
// a file with sections it is the one before the first section, or else that of the section [default].
func Setting(text string, names ...string) string {
	section, byDefault := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if header, ok := strings.CutPrefix(line, "["); ok {
			header, _, _ = strings.Cut(header, "]")
			section = strings.ToLower(strings.Trim(strings.TrimSpace(header), `"'`))
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || section != "" && section != "default" {
			continue
		}
		name = strings.Trim(strings.TrimSpace(name), `"'`)
		for _, n := range names {
			if !strings.EqualFold(name, n) {
				continue
			}
			if value = unquoted(value); section == "" && value != "" {
				return value
			} else if byDefault == "" {
				byDefault = value
			}
		}
	}
	return byDefault
}

func unquoted(value string) string {
	value = strings.TrimSpace(value)
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		inner, _, _ := strings.Cut(value[1:], value[:1])
		return inner
	}
	value, _, _ = strings.Cut(value, "#")
	return strings.TrimSpace(value)
}
