package lcm_test

import (
	"testing"

	"hermesd/agent"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/lcm"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func options() lcm.Options {
	o := lcm.Options{Settings: compressor.Defaults()}
	o.Settings.MinThresholdTokens = 0
	return o
}

func TestSuite(t *testing.T) {
	enginetest.Suite(t, func(s enginetest.Setup) agent.Engine {
		o := options()
		o.Settings, o.Limits, o.Completer, o.State = s.Settings(), s.Limits, s.Summarise, s.State
		return lcm.New(o, s.Session)
	})
}
