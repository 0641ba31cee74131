package holographic_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"hermesd/agent/memory/provider/holographic"
)

// golden is what testdata/golden.py has computed.
type golden struct {
	Dim   int
	Cases []struct {
		Op       string
		Text     string
		Entities []string
		Vector   []*float64
	}
	Hello1024     string
	Similar, Same float64
}

func TestVectorsAreUpstreams(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	for _, c := range g.Cases {
		var got holographic.Vector
		switch c.Op {
		case "atom":
			got = holographic.Atom(c.Text, g.Dim)
		case "text":
			got = holographic.Text(c.Text, g.Dim)
		case "fact":
			got = holographic.FactVector(c.Text, c.Entities, g.Dim)
		case "bind":
			got = holographic.Bind(holographic.Atom(c.Text, g.Dim), holographic.Atom(c.Entities[0], g.Dim))
		}
		if len(got) != len(c.Vector) {
			t.Fatalf("%s %q: %d angles", c.Op, c.Text, len(got))
		}
		for i, want := range c.Vector {
			if want == nil {
				continue
			}
			if d := math.Abs(math.Remainder(got[i]-*want, 2*math.Pi)); !(d < 1e-9) {
				t.Errorf("%s %q: angle %d is %v, want %v", c.Op, c.Text, i, got[i], *want)
				break
			}
			if got[i] < 0 || got[i] > 2*math.Pi {
				t.Errorf("%s %q: angle %d is %v", c.Op, c.Text, i, got[i])
			}
		}
	}
	sum := sha256.Sum256(holographic.Encode(holographic.Atom("hello", 1024)))
	if s := hex.EncodeToString(sum[:]); s != g.Hello1024 {
		t.Errorf("the bytes of a stored vector are not upstream's: %s", s)
	}
	one, two := holographic.Atom("one", g.Dim), holographic.Atom("two", g.Dim)
	if d := holographic.Similarity(one, two) - g.Similar; math.Abs(d) > 1e-12 {
		t.Errorf("similarity differs by %v", d)
	}
	if s := holographic.Similarity(one, one); s != g.Same {
		t.Errorf("similarity to itself is %v", s)
	}
}

func TestStoredVectorsOfBothFormsAreRead(t *testing.T) {
	v := holographic.Text("a few words", 64)
	got := make(holographic.Vector, 64)
	if !holographic.Decode(got, holographic.Encode(v)) || holographic.Similarity(v, got) != 1 {
		t.Error("8 bytes per angle are not read")
	}
	short := []byte("HRR1")
	for _, x := range v {
		short = binary.LittleEndian.AppendUint32(short, math.Float32bits(float32(x)))
	}
	if !holographic.Decode(got, short) || holographic.Similarity(v, got) < 1-1e-9 {
		t.Error("4 bytes per angle are not read")
	}
	for _, bad := range [][]byte{nil, short[:9], holographic.Encode(v)[8:], holographic.Encode(append(v[:63:63], math.NaN())), holographic.Encode(append(v[:63:63], math.Inf(1)))} {
		if holographic.Decode(got, bad) {
			t.Errorf("%d bytes are read", len(bad))
		}
	}
}

func TestAnEntityIsFoundInAFact(t *testing.T) {
	fact := holographic.FactVector("Ada Lovelace wrote the first program", []string{"Ada Lovelace"}, 1024)
	key := holographic.Bind(holographic.Atom("ada lovelace", 1024), holographic.Atom("__hrr_role_entity__", 1024))
	content := holographic.Bind(holographic.Text("Ada Lovelace wrote the first program", 1024), holographic.Atom("__hrr_role_content__", 1024))
	if s := holographic.Similarity(holographic.Bundle(key, content), fact); s < 1-1e-9 {
		t.Errorf("a fact is not its parts: %v", s)
	}
	if s := holographic.Similarity(fact, key); s < 0.5 {
		t.Errorf("similarity to its entity: %v", s)
	}
	other := holographic.Bind(holographic.Atom("bob", 1024), holographic.Atom("__hrr_role_entity__", 1024))
	if s := holographic.Similarity(fact, other); math.Abs(s) > 0.15 {
		t.Errorf("similarity to another entity: %v", s)
	}
}
