package cloud_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

func TestCredential(t *testing.T) {
	t.Setenv("ACME_FIRST", " ")
	t.Setenv("ACME_SECOND", "sk-second\n")
	t.Setenv("ACME_EMPTY", "")
	for _, tt := range []struct {
		given     driver.Secret
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
	e, ok := errors.AsType[*driver.Error](err)
	if !ok || !errors.Is(err, driver.ErrAuth) || e.Hint != "set ACME_FIRST or ACME_EMPTY or Config.APIKey: ask Acme" {
		t.Errorf("%+v", e)
	}
}

// A file is read if neither the field nor a variable has the credential.
func TestCredentialInAFile(t *testing.T) {
	t.Setenv("ACME_FIRST", "sk-first")
	t.Setenv("ACME_EMPTY", "")
	odd := errors.New("no right to read it")
	for _, tt := range []struct {
		given    driver.Secret
		variable string
		file     string
		err      error
		want     string
	}{
		{"sk-given", "ACME_EMPTY", "sk-file", odd, "sk-given"},
		{"", "ACME_FIRST", "sk-file", odd, "sk-first"},
		{"", "ACME_EMPTY", " sk-file\n", nil, "sk-file"},
		{"", "ACME_EMPTY", "env:ACME_FIRST", nil, "env:ACME_FIRST"}, // a file cannot hold a reference
		{"", "ACME_EMPTY", "", nil, ""},
		{"", "ACME_EMPTY", "", odd, ""},
	} {
		got, err := cloud.CredentialOr(t.Context(), "APIKey", tt.given, "ask Acme", func() (string, error) { return tt.file, tt.err }, tt.variable)
		if got != tt.want || (tt.want == "") != errors.Is(err, driver.ErrAuth) || tt.want == "" && tt.err != nil && !errors.Is(err, odd) {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
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
	if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 11 || !strings.Contains(lines[0], "BootTimeout is -1s") || strings.Count(err.Error(), "Endpoint is not like https://api.acme.com") != 7 {
		t.Errorf("%d faults, in order:\n%v", len(lines), err)
	}
}
