package novita

import (
	"cmp"
	"regexp"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cudaimage"
)

// Ubuntu returns NVIDIA's image of an Ubuntu with CUDA's runtime: Ubuntu("24.04", "12.9.1") is
// [DefaultImage]. It does not check that the image exists.
func Ubuntu(version, cuda string) string {
	return cudaimage.Ubuntu("nvcr.io/", version, cuda)
}

// DefaultImage is the image of nodes if Config.Image and Config.MinCUDAVersion are empty and a
// machine's driver supports it; otherwise an image with an older CUDA is used.
const DefaultImage = "nvcr.io/nvidia/cuda:12.9.1-runtime-ubuntu24.04"

// releases are the images of each version of CUDA, newest first. 12.7 has none.
var releases = []struct{ minor, patch, ubuntu string }{
	{"13.0", "13.0.2", "24.04"},
	{"12.9", "12.9.1", "24.04"},
	{"12.8", "12.8.1", "24.04"},
	{"12.6", "12.6.3", "24.04"},
	{"12.5", "12.5.1", "24.04"},
	{"12.4", "12.4.1", "22.04"},
	{"12.3", "12.3.2", "22.04"},
	{"12.2", "12.2.2", "22.04"},
	{"12.1", "12.1.1", "22.04"},
	{"12.0", "12.0.1", "22.04"},
	{"11.8", "11.8.0", "22.04"},
}

const firstCUDA = "12.9" // DefaultImage's

// A step is one attempt at a create: an image, and the CUDA version that the machine's driver
// must support.
type step struct{ image, cuda string }

// steps returns the attempts until a machine is free. Clusters differ in their drivers, and an
// image that is newer than its driver does not see the GPU, so each step asks for the version
// that its image needs. An image or a version from the user is never exchanged: then there is
// one step.
func steps(image, minCUDA string, a accelerators.Accelerator) (all []step) {
	if image != "" {
		return []step{{image, cmp.Or(minCUDA, cudaimage.Version(image), firstCUDA)}}
	}
	least := leastCUDA(a)
	if minCUDA != "" && compare(minCUDA, "11.8") >= 0 && compare(minCUDA, least) < 0 {
		minCUDA = least
	}
	for _, r := range releases {
		s := step{Ubuntu(r.ubuntu, r.patch), r.minor}
		switch {
		case minCUDA != "" && compare(r.minor, minCUDA) <= 0:
			return []step{{s.image, minCUDA}}
		case minCUDA == "" && compare(r.minor, firstCUDA) <= 0 && compare(r.minor, least) >= 0:
			all = append(all, s)
		}
	}
	return all
}

// leastCUDA returns the oldest version of CUDA that supports a device, if that is above the
// oldest image's.
func leastCUDA(a accelerators.Accelerator) string {
	if m, ok := accelerators.Lookup(a.Name); ok && compare(m.ComputeCapability, "10.0") >= 0 {
		return "12.8" // Blackwell
	}
	return "11.8"
}

var versionForm = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}$`)

func compare(a, b string) int { return cudaimage.Compare(a, b) }
