//go:build unix

package container

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

const bakeKey = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"

// bakeOf returns a rig for a pool of gputrain.Bake, whose engine fails a command, and a request for an image of its node.
func bakeOf(t *testing.T, cfg Config, id, fails string) (*rig, driver.Bake) {
	t.Helper()
	requireDocker(t)
	cfg.Binary = fakeEngine(t, `case "$1 $*" in `+fails+`) echo "it is broken" >&2; exit 1 ;; esac; exec docker "$@"`)
	d, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := rigFor(t, d.(*containerDriver))
	r.pool.ID = id
	t.Cleanup(func() {
		_ = exec.Command("docker", "image", "rm", "--force", bakingRepository+":"+id).Run()
	})
	node := r.up(1, gputrain.Spec{})[0]
	return r, driver.Bake{Pool: r.pool, Instance: node, Key: bakeKey, Name: "gputrain-baked-test"}
}

// An image whose Bake fails, or whose program dies, is its pool's until Release deletes it.
func TestBakeThatFails(t *testing.T) {
	long(t)
	r, req := bakeOf(t, Config{}, "bake-fails", "tag*"+bakedRepository+"*")
	var recorded []driver.Resource
	req.Pool = req.Pool.WithRecord(func(res driver.Resource) error { recorded = append(recorded, res); return nil })
	_, err := r.driver.Bake(t.Context(), req)
	if err == nil || !strings.Contains(err.Error(), "container: bake") {
		t.Fatalf("%v", err)
	}
	if len(recorded) != 1 || recorded[0].Kind != "image" || recorded[0].Name != bakingRepository+":bake-fails" {
		t.Errorf("recorded are %+v", recorded)
	}
	image := func(poolID string) []driver.Resource {
		all, err := r.driver.List(t.Context(), poolID)
		if err != nil {
			t.Error(err)
		}
		return slices.DeleteFunc(all, func(res driver.Resource) bool { return res.Kind != "image" || res.Pool != "bake-fails" })
	}
	for _, poolID := range []string{"bake-fails", ""} { // "" is how Reap looks on another computer
		if got := image(poolID); len(got) != 1 || got[0].Owner != r.pool.Owner || got[0].Lease != r.pool.Lease || got[0].Created.IsZero() {
			t.Errorf("List of %q has the image as %+v", poolID, got)
		}
	}
	if got := image("another"); len(got) != 0 {
		t.Errorf("another pool has %+v", got)
	}
	if err := r.driver.Release(t.Context(), driver.PoolInfo{ID: "bake-another"}); err != nil {
		t.Error(err)
	}
	if got := image(""); len(got) != 1 {
		t.Errorf("after another pool's Release there is %+v", got)
	}
	if err := r.driver.Terminate(t.Context(), req.Instance.ID); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := r.driver.Release(t.Context(), r.pool); err != nil {
			t.Error(err)
		}
	}
	if got := image(""); len(got) != 0 {
		t.Errorf("after Release there is %+v", got)
	}
}

// An image that is being finished when the caller's context ends is returned.
func TestFinishedImageIsNotLost(t *testing.T) {
	long(t)
	dir := t.TempDir()
	begun, goOn := filepath.Join(dir, "begun"), filepath.Join(dir, "go-on")
	r, req := bakeOf(t, Config{}, "bake-cancelled", "tag*"+bakedRepository+"*) : >'"+begun+"'; until [ -e '"+goOn+"' ]; do sleep 0.01; done ;; never")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for {
			if _, err := os.Stat(begun); err == nil || t.Context().Err() != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		cancel()
		os.WriteFile(goOn, nil, 0o600)
	}()
	made, err := r.driver.Bake(ctx, req)
	if err != nil || made.Name != req.Name || ctx.Err() == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	if err := r.driver.DeleteBaked(t.Context(), made.ID); err != nil {
		t.Error(err)
	}
}

// The labels of a node are empty in an image of it, whatever is in them.
func TestBakedLabels(t *testing.T) {
	long(t)
	r, req := bakeOf(t, Config{Labels: map[string]string{`te"am$HOME\x`: "a b"}}, "bake-labels", "never")
	made, err := r.driver.Bake(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.driver.DeleteBaked(context.Background(), made.ID); err != nil {
			t.Error(err)
		}
	})
	var config struct {
		Labels          map[string]string
		Cmd, Entrypoint []string
	}
	if err := json.Unmarshal([]byte(do(t, "docker", "image", "inspect", "--format", "{{json .Config}}", made.ID)), &config); err != nil {
		t.Fatal(err)
	}
	for name, value := range config.Labels {
		if (value != "") != strings.HasPrefix(name, labelBaked) {
			t.Errorf("the image has the label %q=%q", name, value)
		}
	}
	if _, ok := config.Labels[`te"am$HOME\x`]; !ok || strings.Join(config.Cmd, " ") != "-l" || strings.Join(config.Entrypoint, " ") != "sh" {
		t.Errorf("the image is configured as %+v", config)
	}
	if err := r.driver.DeleteBaked(t.Context(), DefaultImage); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("an image that is not baked: %v", err)
	}
}

// Without its base image an engine offers no baked image, and pulls none to find out.
func TestOffersPullNothing(t *testing.T) {
	requireDocker(t)
	d, err := Config{Image: "gputrain-test/not-there:1", Binary: fakeEngine(t, `case $1 in pull) echo "no pull" >&2; exit 1 ;; esac; exec docker "$@"`)}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for o, err := range d.Offers(t.Context(), driver.Query{Baked: bakeKey}) {
		if err != nil || o.Baked != "" {
			t.Errorf("%+v, %v", o, err)
		}
	}
}
