package status_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/status"
)

// Whoever has the URL sees the page in a browser. Programs, such as Prometheus, send its token in a header. Others are refused.
func ExampleServe() {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	page, err := status.Serve(rec, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer page.Close()
	// fmt.Println("status:", page.URL()), and gputrain.Open with rec.Option()

	address, token, _ := strings.Cut(page.URL(), "#token=")
	for _, header := range []http.Header{{"Authorization": {"Bearer " + token}}, nil} {
		request, err := http.NewRequest("GET", address+"run.json", nil)
		if err != nil {
			log.Fatal(err)
		}
		request.Header = header
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Println(answer.Status)
	}
	// Output:
	// 200 OK
	// 401 Unauthorized
}

// A program that has a server shows the page there, behind its own authentication.
func ExampleHandler() {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	mux := http.NewServeMux()
	mux.Handle("/status/", http.StripPrefix("/status", status.Handler(rec)))
	server := httptest.NewServer(mux) // with the program's own authentication around it
	defer server.Close()

	answer, err := http.Get(server.URL + "/status/metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "gputrain_tasks{") {
			fmt.Print(line)
		}
	}
	// Output:
	// gputrain_tasks{gputrain_state="running"} 0
	// gputrain_tasks{gputrain_state="waiting"} 0
}

func ExampleServer_URL() {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	page, err := status.Serve(rec, "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	defer page.Close()
	address, token, _ := strings.Cut(page.URL(), "#token=")
	fmt.Println(strings.HasPrefix(address, "http://"), len(token))
	// Output: true 26
}
