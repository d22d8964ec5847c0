package container

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// facts asks the engine for its properties, which also checks that it answers.
func (e *engine) facts(ctx context.Context) (facts, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if e.dialect == apple {
		// It runs on this machine only, and reports nothing about the machine itself.
		if _, err := e.run(ctx, "system", "status"); err != nil {
			return facts{}, err
		}
		host, err := os.Hostname()
		return facts{account: host, vcpus: float64(runtime.NumCPU())}, err
	}
	format := "{{json .}}"
	if e.dialect == podman {
		format = "json"
	}
	out, err := e.run(ctx, "info", "--format", format)
	if err != nil {
		return facts{}, err
	}
	f, err := e.dialect.parseFacts(out)
	if err != nil || e.dialect != docker {
		return f, err
	}
	out, err = e.run(ctx, "context", "inspect")
	if err != nil {
		return facts{}, err
	}
	f.remote, err = remoteContext(out)
	return f, err
}

// remoteContext reads the answer of "docker context inspect", which takes account of
// DOCKER_HOST and DOCKER_CONTEXT. A TCP address counts as remote even if it is this machine's:
// it may be the end of a tunnel.
func remoteContext(answer []byte) (bool, error) {
	var list []struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := json.Unmarshal(answer, &list); err != nil || len(list) == 0 {
		return false, fmt.Errorf("docker context inspect: cannot read the answer: %w", err)
	}
	scheme, _, _ := strings.Cut(list[0].Endpoints["docker"].Host, "://")
	switch scheme {
	case "", "unix", "npipe", "fd":
		return false, nil
	}
	return true, nil
}
