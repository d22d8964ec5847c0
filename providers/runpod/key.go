package runpod

import (
	"context"
	"os"
	"path/filepath"
	"regexp"

	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	keyVariable = "RUNPOD_API_KEY"
	keyHint     = "make one in RunPod's console under Settings, API Keys"
)

// keyLine matches the key in the file of runpodctl and runpod-python.
var keyLine = regexp.MustCompile(`(?m)^[ \t]*api_?key[ \t]*=[ \t]*["']([^"'\r\n]+)["']`)

// key returns the credential.
func (c Config) key(ctx context.Context) (string, error) {
	return cloud.CredentialOr(ctx, "APIKey", c.APIKey, keyHint, keyInFile, keyVariable)
}

// keyInFile returns the key in runpodctl's file. It ignores a file that it cannot read.
func keyInFile() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", nil
	}
	text, _ := os.ReadFile(filepath.Join(home, ".runpod", "config.toml"))
	if found := keyLine.FindSubmatch(text); found != nil {
		return string(found[1]), nil
	}
	return "", nil
}
