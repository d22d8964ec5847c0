module github.com/gputrain/gputrain/internal/test/bench/bigmachine

go 1.26.0

require github.com/grailbio/bigmachine v0.5.8

require (
	github.com/StackExchange/wmi v0.0.0-20190523213315-cbe66965904d // indirect
	github.com/cespare/xxhash v1.1.0 // indirect
	github.com/go-ole/go-ole v1.2.4 // indirect
	github.com/google/pprof v0.0.0-20190930153522-6ce02741cba3 // indirect
	github.com/grailbio/base v0.0.9 // indirect
	github.com/shirou/gopsutil v2.19.9+incompatible // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.0.0-20190921001708-c4c64cad1fd0 // indirect
	v.io v0.1.8 // indirect
	v.io/x/lib v0.1.5 // indirect
)
