package compressor_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hermesd/agent/engine/compressor"
)

func TestThePagePrintsTheFigures(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/compression.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$`).FindAllStringSubmatch(string(raw), -1)
	if len(rows) < 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(strings.ReplaceAll(r[i+1], ",", ""))
		}
		f := compressor.Defaults().TokenLimits(n[0])
		if got, want := fmt.Sprint(n[1:]), fmt.Sprint([]int{f.Threshold, f.Tail, f.Summary}); got != want {
			t.Errorf("a context of %d: the page says %s, it is %s", n[0], got, want)
		}
	}
}
