package local

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// memoryGiB returns the machine's memory, or 0 if it is unknown.
func memoryGiB() float64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib / (1 << 20)
		}
	}
	return 0
}
