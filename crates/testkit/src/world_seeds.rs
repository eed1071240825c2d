//! [`WorldSeeds`]: which seeded worlds a test plays, by the environment.
//!
//! | variable | effect |
//! |---|---|
//! | `OUTBOARD_WORLD=SEED` | the test plays this world only |
//! | `OUTBOARD_WORLDS=COUNT` | it plays so many, instead of its own number |
//! | `OUTBOARD_WORLDS_FROM=SEED` | it begins with this one |

/// Which worlds a test plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorldSeeds {
    /// The only world to play.
    pub only: Option<u64>,
    /// How many worlds to play, if not as many as the test says.
    pub count: Option<u64>,
    /// The first seed.
    pub from: u64,
}

impl WorldSeeds {
    /// What the environment of this process says.
    ///
    /// # Panics
    /// If one of the variables is no number.
    #[must_use]
    pub fn from_env() -> Self {
        Self::parse(|name| std::env::var(name).ok())
    }

    pub(crate) fn parse(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| {
            let value = variable(name)?;
            let number = value.parse();
            Some(number.unwrap_or_else(|_| panic!("{name}={value} is not a number")))
        };
        Self {
            only: number("OUTBOARD_WORLD"),
            count: number("OUTBOARD_WORLDS"),
            from: number("OUTBOARD_WORLDS_FROM").unwrap_or(0),
        }
    }
}
