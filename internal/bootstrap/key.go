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
// uv count: torch is not installed again because a task's learning rate has changed. Of such secrets only the names
// count, since the key is a name on the node's disk: a new password is no reason to install again, another index may be.
// The commands of Before count, because they may decide where packages come from.
func (img Image) venvKey(required requirements, secrets map[string]string) string {
	env := make(map[string]string)
	for name, value := range img.Env {
		if isInstallers(name) {
			env[name] = value
		}
	}
	var hidden []string
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if isInstallers(name) {
			hidden = append(hidden, name)
		}
	}
	return hash("venv", list(img.Before), img.Python, list(img.Pip), required.parts(), list(img.PipIndexes), pairs(env), list(hidden))
}

// isInstallers reports whether a variable is one of pip's or uv's.
func isInstallers(name string) bool {
	return strings.HasPrefix(name, "PIP_") || strings.HasPrefix(name, "UV_")
}
