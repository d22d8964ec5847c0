package local

import (
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	got := environment([]string{
		"PATH=/bin", "HOME=/home/me", "LC_ALL=C", "LANG=", "AWS_SECRET_ACCESS_KEY=x", "HF_TOKEN=x", "SSH_AUTH_SOCK=/s",
		"http_proxy=http://proxy:3128", "https_proxy=http://me:hunter2@proxy:3128", "HTTPS_PROXY=me:hunter2@proxy:3128",
		"NCCL_DEBUG=INFO", "HF_HOME=/models", "ALL_PROXY=http://me:asked@proxy",
	}, []string{"NCCL_*", "HF_HOME", "ALL_PROXY"})
	want := []string{"PATH=/bin", "LC_ALL=C", "LANG=", "http_proxy=http://proxy:3128",
		"NCCL_DEBUG=INFO", "HF_HOME=/models", "ALL_PROXY=http://me:asked@proxy"}
	if !slices.Equal(got, want) {
		t.Errorf("nodes see %q\nwant %q", got, want)
	}
}
