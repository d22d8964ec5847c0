package colab_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/colab"
)

// Print the text of the cell for the user's own key.
func ExampleBootstrapCell() {
	public, err := os.ReadFile(os.ExpandEnv("$HOME/.ssh/id_ed25519.pub"))
	if err != nil {
		log.Fatal(err)
	}
	cell, err := colab.BootstrapCell(string(public))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(cell)
}

// Open a pool of a runtime whose cell authorized a key.
func ExampleConfig() {
	notebook := colab.Config{Endpoint: colab.Endpoint{ // pasted
		Host:    "0.tcp.ngrok.io",
		Port:    14022,
		User:    "root",
		HostKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDNyNGLRG6o70LJhEEwiC2vXdZJr5QXvSgNxJIZjNmC4",
	}}
	pool, err := gputrain.Open(context.Background(), notebook, gputrain.Spec{Accelerator: accelerators.T4()})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	r, err := pool.Run(gputrain.Cmd("nvidia-smi"))
	if err != nil {
		log.Print(err)
	}
	fmt.Printf("%s", r.Stdout)
}

func ExampleParseEndpoint() {
	endpoint, err := colab.ParseEndpoint([]byte(`{"version":1,"provider":"colab","host":"0.tcp.ngrok.io","port":14022,"user":"root",` +
		`"host_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDNyNGLRG6o70LJhEEwiC2vXdZJr5QXvSgNxJIZjNmC4",` +
		`"host_key_sha256":"SHA256:mxOsLnbHgAba+NLrDmMi6BANO1ckgGA7jmbIOGFbZtU","workdir":"/content"}`))
	fmt.Println(endpoint.Host, endpoint.Port, err)
	// Output: 0.tcp.ngrok.io 14022 <nil>
}

// Open refuses an endpoint without a host key.
func ExampleConfig_Open() {
	_, err := colab.Config{Endpoint: colab.Endpoint{Host: "0.tcp.ngrok.io", Port: 14022}}.Open(context.Background())
	fmt.Println(err)
	// Output:
	// colab: open: invalid: Endpoint.HostKey is empty; only the host key distinguishes a runtime behind a public tunnel from a stranger's machine; paste the whole output of BootstrapCell's cell in the notebook
}

func ExampleConfig_Name() {
	fmt.Println(colab.Config{}.Name())
	// Output: colab
}
