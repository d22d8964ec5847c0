package machine

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// removeEnv makes this program remove a home and end, as a user other than root.
const removeEnv = "MACHINE_TEST_REMOVE_HOME"

func TestMain(m *testing.M) {
	if home := os.Getenv(removeEnv); home != "" {
		if err := Home(home).Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
