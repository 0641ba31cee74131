package holographic

// Exported for tests.
var (
	Terms    = terms
	Entities = entities
	Extract  = extract
	Decode   = decode
	Encode   = encode
	Bind     = bind
	Match    = match
)

type Vector = vector

func Similarity(a, b Vector) float64                    { return similarity(a, b) }
func Atom(word string, dim int) Vector                  { return encoder(dim).atom(word) }
func Text(s string, dim int) Vector                     { return encoder(dim).text(s) }
func FactVector(s string, names []string, n int) Vector { return encoder(n).fact(s, names) }
func Bundle(vs ...Vector) Vector                        { return bundle(vs) }
