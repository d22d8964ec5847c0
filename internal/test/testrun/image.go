package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// image makes the containers' image from Debian's packages, unless the engine has it. If it cannot be made, the tests use
// the default image. Without an engine they are skipped.
func (r *runner) image(ctx context.Context) (ok bool, err error) {
	_, required := os.LookupEnv("GPUTRAIN_REQUIRE_DOCKER")
	engine := engine(ctx)
	if engine == "" {
		r.report.say("no container engine answers; the tests that need one are skipped")
		return !required, nil
	}
	env := []string{"CONTAINER_BINARY=" + engine}
	var out []byte
	for _, args := range [][]string{{"--force"}, nil} {
		if out, err = r.command(ctx, env, append([]string{"scripts/container-image"}, args...)...); err == nil {
			return true, nil
		}
	}
	r.report.say("the image for containers can be neither made nor pulled: %v\n%s", err, out)
	return !required, nil
}

// engine returns the first container engine that answers, or an empty string.
func engine(ctx context.Context) string {
	all := "docker podman nerdctl"
	if named := os.Getenv("CONTAINER_BINARY"); named != "" {
		all = named
	}
	for e := range strings.FieldsSeq(all) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := exec.CommandContext(ctx, e, "info").Run()
		cancel()
		if err == nil {
			return e
		}
	}
	return ""
}
