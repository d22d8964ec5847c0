package cudaimage

import "testing"

func TestUbuntu(t *testing.T) {
	for want, got := range map[string]string{
		"nvidia/cuda:12.9.1-runtime-ubuntu24.04":                  Ubuntu("", "24.04", "12.9.1"),
		"registry.example/nvidia/cuda:12.4.1-runtime-ubuntu22.04": Ubuntu("registry.example/", "22.04", "12.4.1"),
	} {
		if got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

func TestVersion(t *testing.T) {
	for image, want := range map[string]string{
		"nvidia/cuda:12.9.1-runtime-ubuntu24.04":             "12.9",
		"nvidia/cuda:13.0.2-devel-ubuntu24.04":               "13.0",
		"pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime":      "12.4",
		"registry.example/team/train:1-cuda-12.10":           "12.10",
		"runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404":    "12.8",
		"vastai/pytorch:2.6.0_cu126-py312":                   "12.6",
		"registry.example/me/train:7":                        "",
		"ubuntu:24.04":                                       "",
		"registry.example/acute:12.4":                        "",
		"registry.example/me/cuda@sha256:0123456789abcdef01": "",
	} {
		if got := Version(image); got != want {
			t.Errorf("%s has CUDA %q; want %q", image, got, want)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"12.9", "12.10", -1}, {"13.0", "12.9", 1}, {"12.4", "12.4", 0}} {
		if got := Compare(tt.a, tt.b); got != tt.want {
			t.Errorf("%s and %s: %d; want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
