package runpod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/secretref"
)

const keyVariable = "RUNPOD_API_KEY"

// keyLine is the key as runpodctl and runpod-python write it into their file.
var keyLine = regexp.MustCompile(`(?m)^[ \t]*api_?key[ \t]*=[ \t]*["']([^"'\r\n]+)["']`)

// key returns the credential.
func (c Config) key(ctx context.Context) (string, error) {
	given, err := secretref.Resolve(ctx, string(c.APIKey))
	if err != nil {
		return "", &gputrain.Error{Kind: gputrain.ErrAuth, Err: fmt.Errorf("Config.APIKey: %w", err)}
	}
	key := strings.TrimSpace(given)
	if key == "" {
		key = strings.TrimSpace(os.Getenv(keyVariable))
	}
	if home, err := os.UserHomeDir(); err == nil && key == "" {
		text, _ := os.ReadFile(filepath.Join(home, ".runpod", "config.toml")) // without it there is none
		if found := keyLine.FindSubmatch(text); found != nil {
			key = string(found[1])
		}
	}
	if key == "" {
		return "", &gputrain.Error{Kind: gputrain.ErrAuth, Err: errors.New("there is no API key"),
			Hint: "make one in RunPod's console under Settings, API Keys, and set " + keyVariable + " or Config.APIKey"}
	}
	return key, nil
}
