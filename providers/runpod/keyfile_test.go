package runpod

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The key is found where the vendor's tools keep it.
func TestKeyInFile(t *testing.T) {
	for _, tt := range []struct{ path, text, want string }{
		{".runpod/config.toml", "\ufeff[work]\napi_key = \"b\"\n[default]\napi_key = \"a\"\n", "a"},
		{".runpod/config.toml", "apiurl = \"x\"\napikey = 'a'\n", "a"},
		{".runpod/config.toml", "[default]\n", ""},
	} {
		home := t.TempDir()
		t.Setenv("HOME", home)
		t.Setenv("USERPROFILE", home)
		t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "xdg"))
		file := filepath.Join(home, filepath.FromSlash(tt.path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(tt.text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if got, err := keyInFile(); strings.TrimSpace(got) != tt.want || err != nil {
			t.Errorf("%s of %q: %q, %v", tt.path, tt.text, got, err)
		}
	}
}
