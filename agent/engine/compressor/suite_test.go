package compressor_test

import (
	"testing"

	"hermesd/agent"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func exactSettings() compressor.Settings {
	s := compressor.Defaults()
	s.MinThresholdTokens = 0
	return s
}

func TestSuite(t *testing.T) {
	enginetest.Suite(t, func(s enginetest.Setup) agent.Engine {
		return compressor.New(compressor.Options{Settings: s.Settings(), Limits: s.Limits, Completer: s.Summarise, State: s.State})
	})
}
