//! A small map in the order of insertion. For a few dozen entries it is as fast as a tree, and a tenth of its code, which
//! the browser has to load.

/// Keys with their values, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pairs<K, V>(Vec<(K, V)>);

impl<K, V> Default for Pairs<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq, V> Pairs<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.0.iter().find(|(one, _)| one == key).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.iter_mut().find(|(one, _)| one == key).map(|(_, value)| value)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The value before, if there was one; a key that is there keeps its place.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.get_mut(&key) {
            Some(known) => Some(std::mem::replace(known, value)),
            None => {
                self.0.push((key, value));
                None
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.0.iter().position(|(one, _)| one == key)?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn remove_oldest(&mut self) {
        if !self.0.is_empty() {
            self.0.remove(0);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.0.iter()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_keep_their_place() {
        let mut pairs = Pairs::default();
        assert_eq!(pairs.insert("a", 1), None);
        assert_eq!(pairs.insert("b", 2), None);
        assert_eq!(pairs.insert("a", 3), Some(1));
        assert_eq!(pairs.iter().copied().collect::<Vec<_>>(), [("a", 3), ("b", 2)]);
        pairs.remove_oldest();
        assert_eq!((pairs.remove(&"a"), pairs.remove(&"b"), pairs.len()), (None, Some(2), 0));
        pairs.remove_oldest();
    }
}
