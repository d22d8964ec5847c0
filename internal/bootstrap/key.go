package bootstrap

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// hash returns the SHA-256 of the parts. Each is written with its length, so that different lists of parts have
// different hashes.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// list makes a list one part of a hash.
func list(items []string) string { return hash(items...) }

// pairs makes a map one part of a hash.
func pairs(m map[string]string) string {
	var flat []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		flat = append(flat, k, m[k])
	}
	return list(flat)
}

// venvKey is the hash of everything that decides a virtual environment's content. Of Env only the variables of pip and
// uv count: torch is not installed again because a task's learning rate has changed.
func (img Image) venvKey() string {
	env := make(map[string]string)
	for name, value := range img.Env {
		if strings.HasPrefix(name, "PIP_") || strings.HasPrefix(name, "UV_") {
			env[name] = value
		}
	}
	return hash("venv", img.Python, list(img.Pip), list(img.PipIndexes), pairs(env))
}
