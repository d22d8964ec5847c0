package aws

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// moto, a fake that others made, gives a second opinion on how EC2 is called. It has no
// placement groups.
func TestMoto(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts another server of the cloud")
	}
	if out, err := exec.Command("python3", "-c", "import moto.server").CombinedOutput(); err != nil {
		if os.Getenv("GPUTRAIN_MOTO") != "" {
			t.Fatalf("GPUTRAIN_MOTO is set, and there is no moto: %v: %s", err, out)
		}
		t.Skip("moto is not installed: pip install 'moto[server,ec2]'")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	server := exec.CommandContext(t.Context(), "python3", "-m", "moto.server", "-H", "127.0.0.1", "-p", port)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for until := time.Now().Add(5 * eventTimeout); ; time.Sleep(50 * time.Millisecond) { // moto does not report when it listens
		if nc, err := net.Dial("tcp", address); err == nil {
			nc.Close()
			break
		} else if time.Now().After(until) {
			t.Fatalf("moto does not listen: %v", err)
		}
	}
	own := &http.Client{Transport: &http.Transport{}}
	defer own.CloseIdleConnections()

	open := func(image string) *awsDriver {
		d, err := Config{Endpoint: "http://" + address, HTTPClient: own, AMI: image, Username: "ec2-user"}.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d.(*awsDriver)
	}
	images, err := open("").api.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Filters: []types.Filter{filter("architecture", "x86_64")}})
	if err != nil || len(images.Images) == 0 {
		t.Fatalf("%+v, %v", images, err)
	}
	d := open(sdk.ToString(images.Images[0].ImageId))
	list := func() ([]driver.Resource, error) {
		return listOf(t.Context(), "p1", []lister{d.instances.list, (&volumes{d.api}).list, d.groups.list, (&keyPairs{d.api}).list, (&launchTemplates{d.api}).list})
	}
	if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Fatal(err)
	}
	o := driver.Offer{Provider: providerName, InstanceType: "m5.large", Region: "us-east-1", Arch: "amd64", HourlyUSD: driver.USD(0.1)}
	got := mustLaunch(t, d, request(gputrain.Spec{}, o, 2))
	found, err := list()
	if err != nil || len(found) != 3 {
		t.Errorf("%+v, %v", found, err)
	}
	for i, in := range got {
		if now := cloudtest.Describe(t, open(""), in.ID); now.State != driver.InstanceRunning || now.Rank != i || now.Name != in.Name {
			t.Errorf("%+v", now)
		}
		if err := d.Terminate(t.Context(), in.ID); err != nil {
			t.Error(err)
		}
		if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceTerminated {
			t.Errorf("%+v", now)
		}
	}
	for _, r := range found {
		if r.Kind == kindGroup {
			if err := d.groups.shared().remove(t.Context(), r); err != nil {
				t.Error(err)
			}
		}
	}
	if list, err := list(); err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}
