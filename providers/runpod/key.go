package runpod

import (
	"context"
	"path/filepath"

	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	keyVariable = "RUNPOD_API_KEY"
	keyHint     = "make one in RunPod's console under Settings, API Keys"
)

// key returns the credential.
func (c Config) key(ctx context.Context) (string, error) {
	return cloud.CredentialOr(ctx, "APIKey", c.APIKey, keyHint, keyInFile, keyVariable)
}

// keyInFile returns the key in the file of runpodctl and runpod-python, of its profile [default] if it has profiles. It ignores a
// file that it cannot read.
func keyInFile() (string, error) {
	text, _ := cloud.KeyFile(filepath.Join(".runpod", "config.toml"))
	return cloud.Setting(text, "apikey", "api_key"), nil
}
