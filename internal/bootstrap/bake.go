package bootstrap

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/supervisor"
)

// modifiers are the fields of an Image that do nothing to a machine by themselves.
var modifiers = []string{"PipIndexes", "Env", "Exclude", "FollowOutsideLinks", "PhaseTimeout"}

// BakeKey returns the hash of everything in an image, of what the files of Requirements contain, and of the scripts that
// prepare a machine: machines that were prepared with the same key are alike, but for the content of Include. It is empty
// if the image asks for nothing, or Requirements cannot be read, or tasks run in a container (Docker). Fields that are not set do not count, so that a new field
// of Image changes no key.
func BakeKey(img Image) string {
	if img.Docker != "" || img.DockerUser != "" || img.DockerPassword != "" {
		return ""
	}
	v, parts, asks := reflect.ValueOf(img), []string{"bake", scriptsHash}, false
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		if field.IsZero() || (field.Kind() == reflect.Slice || field.Kind() == reflect.Map) && field.Len() == 0 {
			continue
		}
		if name == "Requirements" { // what its files contain counts, not its path
			asks = true
			continue
		}
		text, err := json.Marshal(field.Interface()) // a map in the order of its keys
		if err != nil {
			return "" // no field of Image fails
		}
		parts = append(parts, name, string(text))
		asks = asks || !slices.Contains(modifiers, name)
	}
	required, err := readRequirements(img.Requirements)
	if !asks || err != nil { // Plan returns the error
		return ""
	}
	return hash(append(parts, required.parts())...)
}

// scriptsHash identifies the version of the scripts.
var scriptsHash = func() string {
	var parts []string
	_ = fs.WalkDir(scripts, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := scripts.ReadFile(name) // embedded files can be read
			parts = append(parts, name, string(text))
		}
		return err
	})
	return hash(parts...)
}()

//go:embed scripts/seal.sh
var sealScript string

// A Seal describes the machine of which an image is to be made.
type Seal struct {
	// Key is the BakeKey.
	Key string
	// PublicKey is the pool's, in authorized_keys form.
	PublicKey string
	// KeyMark is in each line of authorized_keys that was added for the node. Empty means that none was.
	KeyMark string
	// SelfDestruct is the text by which the machine ends itself. Empty means that it cannot.
	SelfDestruct string
	// Seconds are those after which the machine ends itself.
	Seconds int
}

// Keep returns the text for a POSIX shell on the machine that keeps, for [Options.Baked], the working directory and the
// stamps of its Setup commands in the cache, and that starts the timer of the machine's end. It runs before the pool's
// folder is removed, which ends the machine's lease.
func (s Seal) Keep(facts supervisor.Facts) (string, error) { return s.call("keep", facts) }

// Clean returns the text for a POSIX shell on the machine that removes what must not be in an image: keys, logs,
// histories, the machine's identity. It runs after the pool's folder is removed.
func (s Seal) Clean(facts supervisor.Facts) (string, error) { return s.call("clean", facts) }

func (s Seal) call(what string, facts supervisor.Facts) (string, error) {
	_, rest, _ := strings.Cut(s.PublicKey, " ")
	key, _, _ := strings.Cut(rest, " ")
	lines := slices.DeleteFunc([]string{key, s.KeyMark}, func(text string) bool { return text == "" }) // which is in every line
	text := sealScript + what
	for _, arg := range []string{facts.Root, facts.CacheDir, facts.WorkDir, s.Key, strings.Join(lines, "\n"), fmt.Sprint(s.Seconds), s.SelfDestruct} {
		quoted, err := supervisor.Quote(arg)
		if err != nil {
			return "", err
		}
		text += " " + quoted
	}
	return text + "\n", nil
}

// restore moves what Seal.Keep has kept to where this pool has it. Whatever is missing then runs again.
func (b *bootstrapper) restore(ctx context.Context, p Phase) (bool, *Error) {
	return b.script(ctx, p, call{scripts: []string{"restore.sh"}, args: []string{b.facts.Root, b.facts.CacheDir, b.facts.WorkDir, p.Key}})
}

// BakedPhase is the name of the phase in which a node takes over what its baked image has.
const BakedPhase = "baked image"
