package app

import "testing"

func TestGCPercentIsBounded(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 4 << 20: 400, 8 << 20: 200, 16 << 20: 100, 1 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("percent(%d) = %d, want %d", live, got, want)
		}
	}
}
