package secretref

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func fromEnv(name string) (string, error) {
	secret, set := os.LookupEnv(name)
	if !set {
		return "", errors.New("the variable is not set")
	}
	return secret, nil
}

// fromFile reads a file. It does not check permissions: systems that mount secrets often let every
// user read them.
func fromFile(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(home, rest)
	}
	path, err := filepath.Abs(path) // so that an error shows the folder of a relative path
	if err != nil {
		return "", err
	}
	switch info, err := os.Stat(path); {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", errors.New("it is a directory")
	case !info.Mode().IsRegular(): // opening or reading it might never return
		return "", errors.New("it is not a regular file; read it with cmd://cat PATH")
	case info.Size() > maxSize:
		return "", errTooLarge
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxSize:
		return "", errTooLarge
	}
	return line(text), nil
}
