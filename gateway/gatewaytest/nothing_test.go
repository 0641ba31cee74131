package gatewaytest_test

import (
	"slices"
	"testing"

	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/session"
)

func TestOneModel(t *testing.T) {
	m := gatewaytest.OneModel{Model: "demo", Window: 8}
	if c, err := m.Choose(session.Settings{}); err != nil || c.Model != "demo" || c.Window != 8 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, _, err := m.Resolve("other"); err == nil || err.Error() != "there is only demo" {
		t.Errorf("%v", err)
	}
	if got := m.Names(); !slices.Equal(got, []string{"demo"}) || m.Name(session.Settings{}) != "demo" || m.Price(session.Settings{}, 1000) != "" {
		t.Errorf("%q", got)
	}
}
