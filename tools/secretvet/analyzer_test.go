package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestAnalyzer(t *testing.T) { analysistest.Run(t, analysistest.TestData(), Analyzer, "a") }

func TestMainVars(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), MainVars, "vars", "novars")
}
