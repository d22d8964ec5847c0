// Package cudaimage names NVIDIA's images of Ubuntu with CUDA, and reads the version of CUDA from
// the names of images, for providers of containers.
package cudaimage

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Ubuntu returns NVIDIA's image of an Ubuntu with CUDA's runtime in a registry, whose name ends in a
// slash, or is empty for the default one. It does not check that the image exists.
func Ubuntu(registry, version, cuda string) string {
	return registry + "nvidia/cuda:" + cuda + "-runtime-ubuntu" + version
}

// tagForms are the forms in which images name their version of CUDA: "cuda:12.4", "2.5.1-cuda12.4" and
// "cu124".
var tagForms = []*regexp.Regexp{
	regexp.MustCompile(`cuda[:-]?([0-9]{1,3})\.([0-9]{1,3})`),
	regexp.MustCompile(`[:_-]cu(1[0-9])([0-9])`),
}

// Version returns the version of CUDA in the name or the tag of an image, as "12.4", or "" if it has none.
func Version(image string) string {
	for _, form := range tagForms {
		if m := form.FindStringSubmatch(image); m != nil {
			return m[1] + "." + m[2]
		}
	}
	return ""
}

// Compare compares versions of two numbers.
func Compare(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }

func numbers(version string) []int {
	major, minor, _ := strings.Cut(version, ".")
	x, _ := strconv.Atoi(major)
	y, _ := strconv.Atoi(minor)
	return []int{x, y}
}
