package kubernetes

import (
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestMain(m *testing.M) {
	clientcmd.RecommendedHomeFile = "/nonexistent/kubeconfig" // this user's own clusters stay out of it
	freshFor, askAgain = 0, 0
	cloudtest.Main(m)
}
