package kubernetes

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestMain(m *testing.M) {
	clientcmd.RecommendedHomeFile = "/nonexistent/kubeconfig" // this user's own clusters stay out of it
	freshFor, askAgain, badImageFor = 0, 0, 2*time.Second
	cloudtest.Main(m)
}
