package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestAnalyzer(t *testing.T) { analysistest.Run(t, analysistest.TestData(), Analyzer, "a") }
