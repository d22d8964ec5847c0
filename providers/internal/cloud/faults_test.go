package cloud_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

func TestCredential(t *testing.T) {
	t.Setenv("ACME_FIRST", " ")
	t.Setenv("ACME_SECOND", "sk-second\n")
	t.Setenv("ACME_EMPTY", "")
	for _, tt := range []struct {
		given     gputrain.Secret
		variables []string
		want      string
	}{
		{" sk-given ", []string{"ACME_SECOND"}, "sk-given"},
		{"", []string{"ACME_FIRST", "ACME_SECOND"}, "sk-second"},
		{" ", []string{"ACME_SECOND", "ACME_FIRST"}, "sk-second"},
	} {
		if got, err := cloud.Credential(t.Context(), "APIKey", tt.given, "ask Acme", tt.variables...); got != tt.want || err != nil {
			t.Errorf("%q, %v: %q, %v", string(tt.given), tt.variables, got, err)
		}
	}
	_, err := cloud.Credential(t.Context(), "APIKey", "", "ask Acme", "ACME_FIRST", "ACME_EMPTY")
	e, ok := errors.AsType[*gputrain.Error](err)
	if !ok || !errors.Is(err, gputrain.ErrAuth) || e.Hint != "set ACME_FIRST or ACME_EMPTY or Config.APIKey: ask Acme" {
		t.Errorf("%+v", e)
	}
}

func TestFaults(t *testing.T) {
	var none cloud.Faults
	none.Require(true, "never")
	none.Endpoint("Endpoint", "", "https://api.acme.com")
	none.Endpoint("Endpoint", "http://127.0.0.1:80/base", "https://api.acme.com")
	none.Timeout("RequestTimeout", 0)
	none.Timeout("RequestTimeout", time.Second)
	none.Word("Region", "us-east")
	if err := none.Err(); err != nil {
		t.Error(err)
	}

	var all cloud.Faults
	all.Word("Region", "us east")
	all.Require(false, "Mode %q is no mode", "x")
	all.Timeout("RequestTimeout", time.Millisecond)
	all.Timeout("BootTimeout", -time.Second)
	for _, address := range []string{"api.acme.com", "ftp://api.acme.com", "https://", "https://u:hunter2@api.acme.com", "https://api.acme.com?k=hunter2", "https://api.acme.com#x", "http://\x00"} {
		all.Endpoint("Endpoint", address, "https://api.acme.com")
	}
	err := all.Err()
	if !errors.Is(err, gputrain.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 11 || !strings.Contains(lines[0], "BootTimeout is -1s") || strings.Count(err.Error(), "Endpoint is not like https://api.acme.com") != 7 {
		t.Errorf("%d faults, in order:\n%v", len(lines), err)
	}
}
